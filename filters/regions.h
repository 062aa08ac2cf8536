// Filters only regions of a frame: faces, plates, people, screens.
//
// A region is a box, which may be turned, the ellipse in it, or a part of a polygon. It covers
// every pixel that it touches, and every sample of subsampled chroma of such a pixel. The filter
// replaces the pixels of the region. Over `feather` pixels outside of it, the filtered frame fades
// into the original one. All other pixels keep their bits. An ellipse fades along the lines from
// its centre, up to the ellipse whose half axes are `feather` pixels longer: over `feather` pixels
// along its axes, and over fewer between them. All pixels are filtered from the original frame.
// Where regions overlap, a pixel belongs to the region in which it has the greatest weight, and if
// weights are equal, to the region with the strongest filter.
//
//   out = in + round(weight (filter(in) - in) / 256),  weight 0 to 256
//
// Three filters can have regions: the Gaussian, whose sigma may be relative to the box; the median;
// and the pixelation, whose block size may follow from the box. Their own headers say what they
// compute and how exact that is. The median and the pixelation (where blocks start at the frame's
// corner) give the same bits as their plans for whole frames. The Gaussian keeps to the same
// contract as its plan for whole frames, but rounds differently: a few values differ by 1 code
// value.
//
// Types are u8 and u16. src and dst may be the same image if the plan is made with
// Placement::in_place. Then the plan reads only the regions and the pixels around them that the
// filter needs, and writes only the regions. Otherwise it copies the whole frame first. A pass over
// all regions is one launch, however many there are. A median filters the whole frame and writes
// the regions back if they cover most of the frame, or if its border is shrink. A frame allocates
// nothing and waits for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "filters/color.h"
#include "filters/gaussian.h"
#include "filters/median.h"
#include "filters/pixelate.h"
#include "filters/region_shape.h"

namespace vf {

// Describes a box in pixels of the frame. It may reach over the frame's edges or lie outside of it.
// Its values may be infinite or NaN, and it may be empty.
struct RegionBox {
  double x = 0, y = 0, width = 0, height = 0;  // top left corner and size, before it is turned
  double angle = 0;                            // radians, clockwise, about its centre
  // The object that the box is a part of, for example if it is a rectangle of a mask; otherwise the
  // box itself. Expansion and strength are relative to the object's size.
  double object_x = 0, object_y = 0, object_width = 0, object_height = 0;
  // An area that a user has set: it is not expanded, and the plan's shape does not change it.
  bool area = false;
  // With `invert`, pixels in this box are filtered although other boxes have them.
  bool always = false;
  // A slab of a polygon (region_areas.h), in an area that is not turned: where its left and its
  // right side lie at the top [0] and at the bottom [1]. The box spans both sides.
  bool slab = false;
  double left[2] = {}, right[2] = {};
};

// A box that is an object of its own.
inline RegionBox make_box(double x, double y, double width, double height, double angle = 0) {
  return {x, y, width, height, angle, x, y, width, height};
}

enum class RegionShape : uint8_t { box, ellipse };

struct RegionParams {
  static constexpr Limits<double> kExpand{0, 4};
  static constexpr Limits<int> kFeather{0, 1024};
  // A frame has at most this many regions. If there are more boxes, the last region spans all that
  // are left.
  static constexpr int kMost = 1024;

  RegionShape shape = RegionShape::box;
  double expand = 0.1;  // share of the object's width and height that is added to each side
  int feather = 0;      // pixels
  bool invert = false;  // filters everything except the regions
};

inline RegionEdges edges_of(const RegionParams& p) {
  return {p.feather};
}

// The properties of a region's object that a filter's settings follow from.
struct RegionObject {
  double x, y;  // its top left corner after expansion, in pixels of the frame
  double side;  // its smaller side before expansion, in pixels
};

// The filters that can have regions. Each has these members:
//
//   channels()     bit c of a plane: channel c is filtered
//   check()        checks the settings that are for regions only
//   is_identity()  whether the filter changes no pixel
//   set_region()   sets the filter's fields of a region; without fields, it does nothing
//   strength()     which filter is stronger where regions overlap
//   make_whole()   makes the plan for the whole frame, whose smaller side has `side` pixels
//
// A backend may have kernels for regions of a filter. Otherwise it filters the whole frame and
// mixes it with the original one by the weights.

struct RegionGaussian {
  static constexpr Limits<double> kRelative{0, 4};
  GaussianParams params;
  // If it is not 0, sigma is this share of the object's smaller side, up to what the largest kernel
  // allows, and params.sigma and sigma_y have no effect. For whole frames it is a share of the
  // frame's smaller side.
  double sigma_relative = 0;

  const uint8_t* channels() const { return params.channels; }
  Status check() const;
  bool is_identity() const;
  void set_region(Type type, const RegionObject& object, Region* region) const;
  double strength(const Region& r) const { return double(r.sigma_x) + double(r.sigma_y); }
  Status make_whole(Queue& queue, const Layout& layout, int side, Placement placement,
                    std::unique_ptr<Plan>* out) const;
};

struct RegionMedian {
  MedianParams params;

  const uint8_t* channels() const { return params.channels; }
  Status check() const { return {}; }
  bool is_identity() const { return vf::is_identity(params); }
  void set_region(Type, const RegionObject&, Region*) const {}
  double strength(const Region&) const { return 0; }
  Status make_whole(Queue& queue, const Layout& layout, int, Placement placement,
                    std::unique_ptr<Plan>* out) const {
    return make_median(queue, layout, params, placement, out);
  }
};

struct RegionPixelate {
  // A block_size of 0 gives at most so many blocks across the object's smaller side. With 5 to 8
  // blocks, detectors still find the face; with 4 they find it now and then.
  static constexpr int kBlocks = 3;
  PixelateParams params;
  bool from_box = false;  // blocks start at the expanded object's corner instead of the frame's

  const uint8_t* channels() const { return params.channels; }
  Status check() const { return {}; }
  bool is_identity() const { return vf::is_identity(params); }
  void set_region(Type type, const RegionObject& object, Region* region) const;
  double strength(const Region& r) const { return r.block; }
  Status make_whole(Queue& queue, const Layout& layout, int, Placement placement,
                    std::unique_ptr<Plan>* out) const {
    return make_pixelate(queue, layout, params, placement, out);
  }
};
using RegionFilter = std::variant<RegionGaussian, RegionMedian, RegionPixelate>;

inline bool is_identity(const RegionFilter& filter) {
  return std::visit([](const auto& f) { return f.is_identity(); }, filter);
}

// Makes the regions that RegionsPlan filters in a frame of `width` x `height` pixels, the strongest
// first. Leaves out boxes that are empty, lie outside of the frame or lie under stronger ones.
void prepare_regions(const RegionParams& params, const RegionFilter& filter, Type type, int width,
                     int height, const RegionBox* boxes, size_t count, std::vector<Region>* out);

class RegionMotion;

class RegionsPlan : public Plan {
 public:
  ~RegionsPlan() override;
  // set_boxes() sets the boxes that the next frames are filtered in or, with `invert`, outside of.
  // set_whole() filters the next frames whole. Before the first call there are no boxes. Neither
  // call waits.
  Status set_boxes(const RegionBox* boxes, size_t count);
  void set_whole();

  // follow() makes the plan measure how frames of `color` move, if they have a luma, so that boxes
  // can follow (region_motion.h). After measure_next(), the next call of run() measures its frame
  // in `boxes` before it filters it. Other frames are not measured.
  Status follow(const ColorFormat& color);
  Status measure_next(int64_t time, const std::vector<RegionBox>& boxes);
  // Null if frames are not measured.
  RegionMotion* motion() { return motion_.get(); }

 protected:
  RegionsPlan(Queue& queue, const struct RegionsTask& task);
  const RegionParams& params() const { return params_; }
  const RegionFilter& filter() const { return filter_; }
  RegionEdges edges() const { return edges_of(params_); }
  const std::vector<Region>& regions() const { return regions_; }
  bool whole() const { return whole_; }
  // Filters the whole frame.
  Plan& whole_plan() const { return *whole_plan_; }
  // Returns the channels of a plane that are filtered, one bit each.
  uint8_t channels(int plane) const;

 private:
  Status enqueue(const Image& src, const Image& dst) final;
  // Filters the regions, as enqueue() of other plans does.
  virtual Status enqueue_regions(const Image& src, const Image& dst) = 0;
  friend Status make_regions(Queue&, const Layout&, const RegionParams&, const RegionFilter&,
                             Placement, std::unique_ptr<RegionsPlan>*);
  RegionParams params_;
  RegionFilter filter_;
  int width_ = 0, height_ = 0;  // size of the frame
  bool whole_ = false;
  std::vector<Region> regions_;
  std::unique_ptr<Plan> whole_plan_;
  std::unique_ptr<RegionMotion> motion_;
  bool measures_ = false;  // run() measures the next frame, whose time is measured_at_
  int64_t measured_at_ = 0;
  std::vector<RegionBox> followed_;  // in which run() measures
};

Status make_regions(Queue& queue, const Layout& layout, const RegionParams& params,
                    const RegionFilter& filter, Placement placement,
                    std::unique_ptr<RegionsPlan>* out);

}  // namespace vf
