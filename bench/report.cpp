#include "bench/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace vf::bench {

Options parse_options(int argc, char** argv, const char* what) {
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg == "--quick" || arg == "--smoke") {
      (arg == "--quick" ? o.quick : o.smoke) = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (value && arg == "--backend" && (!strcmp(value, "cpu") || !strcmp(value, "cuda")))
      o.backend = value;
    else if (value && arg == "--filter")
      o.filter = value;
    else if (value && arg == "--match")
      o.match = value;
    else if (value && arg == "--csv")
      o.csv = value;
    else if (value && arg == "--threads")
      o.threads = atoi(value);
    else if (value && arg == "--seed")
      o.seed = strtoull(value, nullptr, 10);
    else {
      fprintf(stderr,
              "%s: unknown or incomplete argument %s\n%s\n"
              "options: --backend cpu|cuda, --filter NAME, --match SUBSTRING, --quick, --smoke,\n"
              "         --csv FILE, --threads N, --seed N\n",
              argv[0], arg.c_str(), what);
      exit(2);
    }
  }
  return o;
}

Table::Table(std::vector<Column> columns, const char* check, const Options& options)
    : columns_(std::move(columns)), options_(options) {
  while (strcmp(columns_[check_].title, check)) check_++;
}

void Table::open() {
  if (options_.csv.empty()) return;
  csv_ = fopen(options_.csv.c_str(), "w");
  if (!csv_) {
    fprintf(stderr, "cannot write %s\n", options_.csv.c_str());
    exit(2);
  }
  for (size_t i = 0; i < columns_.size(); i++)
    fprintf(csv_, "%s%s", i ? "," : "", columns_[i].title);
  fprintf(csv_, "\n");
}

Table::~Table() {
  if (csv_) fclose(csv_);
}

bool Table::wants(const std::string& name, bool quick) const {
  return name.find(options_.match) != std::string::npos && (quick || !options_.quick);
}

bool Table::wants_filter(const std::string& name) const {
  const bool wanted = options_.filter.empty() || options_.filter == name;
  filter_known_ = filter_known_ || wanted;
  return wanted;
}

void Table::add(const std::vector<std::string>& cells) {
  rows_++;
  if (cells[check_] != "ok") bad_++;
  const auto print = [&](auto&& text_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); i++) {
      const Column& column = columns_[i];
      const std::string text = text_of(i);
      const size_t width = size_t(column.width);
      // The width is counted in characters, because a cell may hold UTF-8.
      size_t length = 0;
      for (const char c : text) length += (c & 0xc0) != 0x80;
      const std::string space(length < width ? width - length : 0, ' ');
      line += (i ? "  " : "") + (column.number ? space + text : text + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    printf("%s\n", line.c_str());
  };
  if (!header_) {
    open();
    print([&](size_t i) { return std::string(columns_[i].title); });
    print([&](size_t i) { return std::string(size_t(columns_[i].width), '-'); });
    header_ = true;
  }
  print([&](size_t i) { return i < cells.size() ? cells[i] : std::string(); });
  fflush(stdout);
  if (!csv_) return;
  for (size_t i = 0; i < columns_.size(); i++) {
    const std::string text = i < cells.size() && cells[i] != "-" ? cells[i] : "";
    const bool quoted = text.find_first_of(",\"") != std::string::npos;
    fprintf(csv_, quoted ? "%s\"%s\"" : "%s%s", i ? "," : "", text.c_str());
  }
  fprintf(csv_, "\n");
  fflush(csv_);
}

void Table::note(const char* format, ...) {
  va_list args;
  va_start(args, format);
  printf("# ");
  vprintf(format, args);
  printf("\n");
  va_end(args);
  fflush(stdout);
}

int Table::finish() {
  if (!filter_known_ || !rows_) {
    fprintf(stderr, filter_known_ ? "no row matched\n" : "no such filter\n");
    return 2;
  }
  note("%d rows, %d wrong or failed", rows_, bad_);
  return bad_ ? 1 : 0;
}

double median(std::vector<double> values) {
  if (values.empty()) return -1;
  const auto middle = values.begin() + ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string number(double value, int decimals) {
  if (!(value >= 0)) return "-";
  char text[32];
  snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace vf::bench
