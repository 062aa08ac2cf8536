// What the benchmarks share: their options, and results as a table to read and as CSV.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace vf::bench {

struct Options {
  std::string backend;  // "cpu" or "cuda" alone
  std::string filter;   // only rows of this filter
  std::string match;    // only rows whose name holds this
  std::string csv;      // file to write, too
  bool quick = false;   // a few rows of each filter
  bool smoke = false;   // tiny frames, and times that mean nothing: only whether every row runs
  int threads = 0;      // of the CPU backend; 0: one for each processor
  uint64_t seed = 1;
};

// Reads the options above; prints the usage and exits on anything else. `what` says what the
// program measures.
Options parse_options(int argc, char** argv, const char* what);

// Rows of results, printed as they come in, so that an interrupted run leaves what it had.
class Table {
 public:
  struct Column {
    const char* title;
    int width;
    bool number = false;  // right-aligned
  };
  // `check` is the column that says "ok" or what is wrong.
  Table(std::vector<Column> columns, const char* check, const Options& options);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // Whether the options leave this row in.
  bool wants(const std::string& name, bool quick) const;
  bool wants_filter(const std::string& name) const;
  void add(const std::vector<std::string>& cells);
  // A line of its own, not in the CSV.
  void note(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // Says how many rows there were, and returns the program's exit status.
  int finish();

 private:
  void open();  // the CSV file, with its header
  std::vector<Column> columns_;
  size_t check_ = 0;
  const Options& options_;
  FILE* csv_ = nullptr;
  bool header_ = false;
  mutable bool filter_known_ = false;
  int rows_ = 0, bad_ = 0;
};

// A number with so many decimals; "-" where it is negative, which means not measured.
std::string number(double value, int decimals);

double median(std::vector<double> values);

}  // namespace vf::bench
