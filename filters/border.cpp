#include "filters/border.h"

namespace vf {

const char* name_of(Border b) {
  switch (b) {
    case Border::replicate:
      return "replicate";
    case Border::reflect:
      return "reflect";
    case Border::reflect_101:
      return "reflect-101";
    case Border::wrap:
      return "wrap";
    case Border::constant:
      return "constant";
    case Border::shrink:
      return "shrink";
  }
  return "?";
}

}  // namespace vf
