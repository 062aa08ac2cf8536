// Reads the text of the property areas, and turns it into boxes of regions.
#pragma once

#include <string>
#include <vector>

#include "filters/region_areas.h"

namespace gstvf {

// Holds the areas of one text, in pixels or in percent of the frame.
struct Areas {
  struct Area {
    bool in_shares;  // coordinates are percent of the frame's width and height
    vf::RegionArea area;
  };
  std::vector<Area> list;
};

// Reads the text of the property. Returns what is wrong with it, or an empty text.
std::string parse_areas(const std::string& text, Areas* out);

// Returns the boxes that cover the areas in a frame of this size.
std::vector<vf::RegionBox> boxes_of(const Areas& areas, int width, int height);

}  // namespace gstvf
