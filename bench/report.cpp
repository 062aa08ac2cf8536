#include "bench/report.h"

#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace vf::bench {

Options parse_options(int argc, char** argv, const char* what) {
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg == "--quick") {
      o.quick = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (value && arg == "--filter")
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
      fprintf(
          stderr,
          "%s: unknown or incomplete argument %s\n%s\n"
          "options: --filter NAME, --match SUBSTRING, --quick, --csv FILE, --threads N, --seed N\n",
          argv[0], arg.c_str(), what);
      exit(2);
    }
  }
  return o;
}

Table::Table(std::vector<Column> columns, const std::string& csv) : columns_(std::move(columns)) {
  if (csv.empty()) return;
  csv_ = fopen(csv.c_str(), "w");
  if (!csv_) {
    fprintf(stderr, "cannot write %s\n", csv.c_str());
    exit(2);
  }
  for (size_t i = 0; i < columns_.size(); i++)
    fprintf(csv_, "%s%s", i ? "," : "", columns_[i].title);
  fprintf(csv_, "\n");
}

Table::~Table() {
  if (csv_) fclose(csv_);
}

void Table::add(const std::vector<std::string>& cells) {
  const auto print = [&](auto&& text_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); i++) {
      const Column& column = columns_[i];
      const std::string text = text_of(i);
      const size_t width = size_t(column.width);
      // Counted in characters: a cell may hold UTF-8.
      size_t length = 0;
      for (const char c : text) length += (c & 0xc0) != 0x80;
      const std::string space(length < width ? width - length : 0, ' ');
      line += (i ? "  " : "") + (column.number ? space + text : text + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    printf("%s\n", line.c_str());
  };
  if (!header_) {
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

std::string number(double value, int decimals) {
  if (!(value >= 0)) return "-";
  char text[32];
  snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace vf::bench
