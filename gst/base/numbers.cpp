#include "gst/base/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gstvf {
namespace {

// Returns NaN for anything but a number. GStreamer's arrays may write the type before the number.
double parse_number(const char* text) {
  const char* type_end = *text == '(' ? strchr(text, ')') : nullptr;
  if (type_end) text = type_end + 1;
  gchar* end = nullptr;
  const double v = g_ascii_strtod(text, &end);
  return end == text || *g_strchug(end) ? NAN : v;
}

std::string print_number(double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  for (const char* format : {"%.6g", "%.15g", "%.17g"}) {
    g_ascii_formatd(text, sizeof text, format, value);
    if (g_ascii_strtod(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace

bool operator!=(const Numbers& a, const Numbers& b) {
  return a.count != b.count || !std::equal(a.value, a.value + std::min(a.count, 3u), b.value);
}

Numbers parse_numbers(const char* given) {
  g_autofree gchar* text = g_strstrip(g_strdup(given ? given : ""));
  const size_t size = strlen(text);
  const bool bracketed = size > 1 && text[0] == '<' && text[size - 1] == '>';
  if (bracketed) text[size - 1] = 0;
  g_auto(GStrv) items = g_strsplit(text + bracketed, ",", -1);
  Numbers numbers;
  numbers.count = g_strv_length(items);
  for (guint i = 0; i < std::min(numbers.count, 3u); i++)
    numbers.value[i] = parse_number(g_strstrip(items[i]));
  return numbers;
}

std::string print_numbers(const Numbers& numbers) {
  std::string text;
  for (guint i = 0; i < std::min(numbers.count, 3u); i++)
    text += (i ? "," : "") + print_number(numbers.value[i]);
  return text;
}

}  // namespace gstvf
