#include "filters/median.h"

#include "bench/kernels/kernels.h"
#include "bench/kernels/npp.h"
#include "cuda/median.h"

namespace vf::bench {
namespace {

// Marks rows of the general way where another one is taken: what shows whether the crossover is
// right.
constexpr char kByRanks[] = " by ranks";

void run(Bench& bench, const char* frame, const Layout& layout, const MedianParams& params,
         const std::string& note, bool in_place, bool quick) {
  const int w = params.size, h = params.size_y ? params.size_y : w;
  Row row;
  row.filter = "median";
  row.frame = frame;
  row.parameters = std::to_string(w) + "x" + std::to_string(h) + note;
  row.src = row.dst = layout;
  row.in_place = in_place;
  row.quick = quick;
  row.tolerance = {0, 1};  // a median is a value of its window
  row.make = [params, note](Queue& queue, const Layout& src, const Layout&, Placement placement,
                            std::unique_ptr<Plan>* plan) {
    cuda::median::ways_for_tests.ranks_only = note == kByRanks;
    const Status status = make_median(queue, src, params, placement, plan);
    cuda::median::ways_for_tests.ranks_only = false;
    return status;
  };
  if (note.empty()) row.peers = [layout, w, h] { return npp_median(layout, w, h); };
  bench.run(row);
}

}  // namespace

void median_rows(Bench& bench) {
  const struct {
    const char* frame;
    Layout layout;
  } frames[] = {
      {"1080p gray", packed_layout(Type::u8, 1, 1920, 1080)},
      {"1080p gray16", packed_layout(Type::u16, 1, 1920, 1080)},
      {"1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080)},
      {"1080p f32", packed_layout(Type::f32, 1, 1920, 1080)},
      {"2160p RGBA", packed_layout(Type::u8, 4, 3840, 2160)},
  };
  for (const auto& f : frames)
    for (const int k : {3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 31, 51, 75, 127}) {
      // What has ways of its own in between, and beyond.
      if ((k == 13 || k == 17 || k == 19 || k > 75) && f.layout.type == Type::u8) continue;
      MedianParams params;
      params.size = k;
      run(bench, f.frame, f.layout, params, "", false,
          f.layout.plane[0].width == 1920 && (k == 5 || k == 15 || k == 31));
    }

  const struct {
    const char* frame;
    Layout layout;
  } video[] = {
      {"1080p NV12", nv12_layout(1920, 1080)},
      {"2160p P010", p010_layout(3840, 2160)},
      {"1080p RGB", packed_layout(Type::u8, 3, 1920, 1080)},
  };
  for (const auto& f : video)
    for (const int k : {3, 5, 15}) {
      MedianParams params;
      params.size = k;
      run(bench, f.frame, f.layout, params, "", false, false);
    }

  // What other borders, windows that are not square and filtering in place cost.
  for (const int k : {3, 5, 15, 31}) {
    MedianParams params;
    params.size = k;
    params.border = Border::shrink;
    run(bench, "1080p gray", frames[0].layout, params, " shrink", false, false);
    params.border = Border::replicate;
    run(bench, "1080p gray", frames[0].layout, params, " in place", true, false);
  }
  const std::pair<int, int> crossings[] = {{0, 15}, {0, 17}, {0, 21}, {0, 31}, {0, 75}, {1, 15},
                                           {1, 17}, {1, 19}, {3, 9},  {3, 11}, {3, 13}};
  for (const auto& [f, k] : crossings) {
    MedianParams params;
    params.size = k;
    run(bench, frames[f].frame, frames[f].layout, params, kByRanks, false, false);
  }
  for (const auto& [w, h] : {std::pair{3, 5}, {9, 5}, {31, 9}}) {
    MedianParams params;
    params.size = w;
    params.size_y = h;
    run(bench, "1080p gray", frames[0].layout, params, "", false, false);
  }
}

}  // namespace vf::bench
