// Filtered regions have the contract of the filter, as filters/regions.h says.
#pragma once

#include "filters/regions.h"
#include "tests/gaussian.h"
#include "tests/median.h"
#include "tests/pixelate.h"

namespace vf::test {

inline Tolerance regions_contract(const RegionFilter& filter, Type type) {
  if (std::holds_alternative<RegionGaussian>(filter)) return gaussian_contract(type);
  return std::holds_alternative<RegionMedian>(filter) ? median_contract() : pixelate_contract();
}

}  // namespace vf::test
