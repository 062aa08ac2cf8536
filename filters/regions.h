// Filtering regions of frames and nothing else: faces, plates, people, screens.
//
// A region is a box, or what an ellipse or a rotated box cuts out of one. It covers every pixel
// that it touches, and every sample of subsampled chroma of such a pixel. Within it a pixel is what
// the filter makes of it; over `feather` pixels outside of it the filtered frame fades into the
// original one; all else is left as it is, bit for bit. An ellipse fades along the lines from its
// centre, up to the ellipse whose half axes are `feather` pixels longer: over `feather` pixels
// along its axes, and over fewer between them. All pixels are filtered from the original frame.
// Where regions overlap, a pixel belongs to the one in which it has the greatest weight, or, among
// those, to the one whose filter is strongest.
//
//   out = in + round(weight (filter(in) - in) / 256),  weight 0 to 256
//
// Three filters can be had: the Gaussian, whose sigma may be relative to the box; the median; the
// pixelation, whose block size may follow from the box. Their own headers say what they compute
// and how exact that is. The median and the pixelation (where blocks start at the frame's corner)
// give the same bits as their plans for whole frames. The Gaussian keeps to the same contract as
// its plan for whole frames, but rounds differently: a few values differ by 1 code value.
//
// Types: u8 and u16. src and dst may be the same image if the plan is made with
// Placement::in_place: then only the regions and what the filter sees around them are read, and
// only they are written. Else all of the frame is copied first. A pass over all regions is one
// launch, however many there are. Only where a median's regions have most of the frame, or its
// border is shrink, all of the frame is filtered and the regions written back. Nothing is allocated
// and nothing waits per frame.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "filters/gaussian.h"
#include "filters/median.h"
#include "filters/pixelate.h"
#include "filters/region_shape.h"

namespace vf {

// A box in pixels of the frame, wherever it lies: it may reach over the frame's edges, lie outside
// of it, be empty, infinite or no number.
struct RegionBox {
  double x = 0, y = 0, width = 0, height = 0;  // of its top left corner, before it is turned
  double angle = 0;                            // radians, clockwise, about its centre
  // The object that it is a part of, as a rectangle of a mask is; else itself. Its size is what
  // expansion and strength are relative to.
  double object_x = 0, object_y = 0, object_width = 0, object_height = 0;
};

// A box that is an object of its own.
inline RegionBox make_box(double x, double y, double width, double height, double angle = 0) {
  return {x, y, width, height, angle, x, y, width, height};
}

enum class RegionShape : uint8_t { box, ellipse };

struct RegionParams {
  static constexpr Limits<double> kExpand{0, 4};
  static constexpr Limits<int> kFeather{0, 1024};
  // Regions of a frame; of more, those from this one on are filtered as one, all that they span.
  static constexpr int kMost = 1024;

  RegionShape shape = RegionShape::box;
  double expand = 0.1;  // share of the object's width and height, added to each side
  int feather = 0;      // pixels
  bool invert = false;  // filters all but the regions
};

inline RegionEdges edges_of(const RegionParams& p) {
  return {p.shape == RegionShape::ellipse, p.feather};
}

// The filters. A Gaussian's sigma_relative, where it is not 0, is its sigma as a share of the
// smaller side of the object, before it is expanded; sigma and sigma_y then have no effect. It is
// limited to what the largest kernel allows. The smaller side of the frame counts where all of it
// is filtered.
struct RegionGaussian {
  static constexpr Limits<double> kRelative{0, 4};
  GaussianParams params;
  double sigma_relative = 0;
};
struct RegionMedian {
  MedianParams params;
};
// A block_size of 0 gives at most kBlocks blocks across the smaller side of the object, before it
// is expanded: in faces of 5 to 8 blocks a detector still finds the face, and now and then in 4.
struct RegionPixelate {
  static constexpr int kBlocks = 3;
  PixelateParams params;
  bool from_box = false;  // blocks start at the expanded object's corner, else at the frame's
};
using RegionFilter = std::variant<RegionGaussian, RegionMedian, RegionPixelate>;

bool is_identity(const RegionFilter& filter);

// The regions of a frame of `width` x `height` pixels, strongest first: what RegionsPlan filters.
// Those that lie outside, are empty or under a stronger one are left out.
void prepare_regions(const RegionParams& params, const RegionFilter& filter, Type type, int width,
                     int height, const RegionBox* boxes, size_t count, std::vector<Region>* out);

class RegionsPlan : public Plan {
 public:
  // What is filtered in frames from now on: these boxes (with `invert`, all but them), or all.
  // Before the first call, nothing (with `invert`, all). Does not wait.
  Status set_boxes(const RegionBox* boxes, size_t count);
  void set_whole();

 protected:
  RegionsPlan(Queue& queue, const struct RegionsTask& task);
  const RegionParams& params() const { return params_; }
  const RegionFilter& filter() const { return filter_; }
  RegionEdges edges() const { return edges_of(params_); }
  const std::vector<Region>& regions() const { return regions_; }
  bool whole() const { return whole_; }
  // Filters all of a frame.
  Plan& whole_plan() const { return *whole_plan_; }
  // Bit c of a plane: channel c is filtered.
  uint8_t channels(int plane) const;

 private:
  friend Status make_regions(Queue&, const Layout&, const RegionParams&, const RegionFilter&,
                             Placement, std::unique_ptr<RegionsPlan>*);
  RegionParams params_;
  RegionFilter filter_;
  int width_ = 0, height_ = 0;  // of the frame
  bool whole_ = false;
  std::vector<Region> regions_;
  std::unique_ptr<Plan> whole_plan_;
};

Status make_regions(Queue& queue, const Layout& layout, const RegionParams& params,
                    const RegionFilter& filter, Placement placement,
                    std::unique_ptr<RegionsPlan>* out);

}  // namespace vf
