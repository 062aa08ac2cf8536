// Shares between the benchmarks: their options, and results as a readable table and as CSV.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace vf::bench {

struct Options {
  std::string backend;  // "cpu" or "cuda"; empty means both
  std::string filter;   // only rows of this filter
  std::string match;    // only rows whose name contains this
  std::string csv;      // a file to write as well
  bool quick = false;   // a few rows of each filter
  bool smoke = false;   // tiny frames and meaningless times, only to see that every row runs
  int threads = 0;      // the CPU backend's; 0 means one per processor
  uint64_t seed = 1;
};

// Reads the options above. Prints the usage and exits for anything else. `what` says what the
// program measures.
Options parse_options(int argc, char** argv, const char* what);

// Prints rows of results as they come in, so that an interrupted run leaves the rows that it had.
class Table {
 public:
  struct Column {
    const char* title;
    int width;
    bool number = false;  // right-aligned
  };
  // `check` names the column that says "ok" or what is wrong.
  Table(std::vector<Column> columns, const char* check, const Options& options);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Returns whether the options include this row.
  bool wants(const std::string& name, bool quick) const;
  bool wants_filter(const std::string& name) const;
  void add(const std::vector<std::string>& cells);
  // Prints a line of its own that is not in the CSV.
  void note(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // Prints how many rows there were and returns the program's exit status.
  int finish();

 private:
  void open();  // opens the CSV file and writes its header
  std::vector<Column> columns_;
  size_t check_ = 0;
  const Options& options_;
  FILE* csv_ = nullptr;
  bool header_ = false;
  mutable bool filter_known_ = false;
  int rows_ = 0, bad_ = 0;
};

// Returns the text of a number with so many decimals. A negative number means not measured and
// gives "-".
std::string number(double value, int decimals);

double median(std::vector<double> values);

}  // namespace vf::bench
