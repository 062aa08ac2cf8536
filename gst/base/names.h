// Reads the text of a property that is a list of names.
#pragma once

#include <glib.h>

#include <cstring>
#include <string>

namespace gstvf {

// Calls `use` for each name of a list with commas, without the white space around it. A backslash
// makes a comma or a backslash part of a name. Names without characters do not count.
template <class Use>
void for_each_name(const std::string& list, Use use) {
  std::string name;
  size_t length = 0;  // excludes white space behind `name`
  for (size_t i = 0; i <= list.size(); i++) {
    if (i == list.size() || list[i] == ',') {
      name.resize(length);
      if (length) use(name);
      name.clear();
      length = 0;
      continue;
    }
    const bool escapes = list[i] == '\\' && i + 1 < list.size() && strchr(",\\", list[i + 1]);
    if (escapes) i++;
    const bool space = g_ascii_isspace(list[i]);
    if (space && name.empty()) continue;
    name += list[i];
    if (!space) length = name.size();
  }
}

}  // namespace gstvf
