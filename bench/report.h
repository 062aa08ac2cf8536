// What the benchmarks share: their options, and results as a table to read and as CSV.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace vf::bench {

struct Options {
  std::string filter;  // only rows of this filter
  std::string match;   // only rows whose name holds this
  std::string csv;     // file to write, too
  bool quick = false;  // a few rows of each filter
  int threads = 0;     // of the CPU backend; 0: one for each processor
  uint64_t seed = 1;
};

// Reads the options above; prints the usage and exits on anything else. `what` says what the
// program measures.
Options parse_options(int argc, char** argv, const char* what);

// Printed row by row as results come in, so that an interrupted run leaves what it had.
class Table {
 public:
  struct Column {
    const char* title;
    int width;
    bool number = false;  // right-aligned
  };
  Table(std::vector<Column> columns, const std::string& csv);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  void add(const std::vector<std::string>& cells);
  // A line of its own, not in the CSV.
  void note(const char* format, ...) __attribute__((format(printf, 2, 3)));

 private:
  std::vector<Column> columns_;
  FILE* csv_ = nullptr;
  bool header_ = false;
};

// A number with so many decimals; "-" where it is negative, which means not measured.
std::string number(double value, int decimals);

}  // namespace vf::bench
