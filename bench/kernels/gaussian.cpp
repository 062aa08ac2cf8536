#include "filters/gaussian.h"

#include "bench/kernels/gaussian.h"
#include "bench/kernels/kernels.h"
#include "bench/kernels/npp.h"

namespace vf::bench {
namespace {

struct Format {
  const char* frame;
  Layout layout;
};

Tolerance contract(Type type) {
  if (type == Type::f32) return {1e-5, 0};
  return {1, type == Type::u8 ? 0.99 : 0};
}

// A row without its names.
Row row_for(const Layout& layout, const GaussianParams& params) {
  Row row;
  row.filter = "gaussian";
  row.src = row.dst = layout;
  row.tolerance = contract(layout.type);
  row.make = [params](Queue& queue, const Layout& src, const Layout&, Placement placement,
                      std::unique_ptr<Plan>* plan) {
    return make_gaussian(queue, src, params, placement, plan);
  };
  GaussianOracle oracle;
  for (int p = 0; p < layout.planes; p++) {
    oracle.sigma[p] = params.sigma / (1 << layout.plane[p].sub_x);
    oracle.taps[p] = params.kernel_size ? params.kernel_size
                                        : gaussian_kernel_size(oracle.sigma[p], layout.type);
  }
  row.oracle = [oracle](const Image& src, const Image& dst, cudaStream_t stream) {
    return gaussian_oracle(oracle, src, dst, stream);
  };
  return row;
}

std::string sized(int k) {
  return std::to_string(k) + "x" + std::to_string(k);
}

}  // namespace

void gaussian_rows(Bench& bench) {
  const Format sizes[] = {
      {"2160p RGBA", packed_layout(Type::u8, 4, 3840, 2160)},
      {"2160p gray", packed_layout(Type::u8, 1, 3840, 2160)},
      {"1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080)},
      {"1080p gray", packed_layout(Type::u8, 1, 1920, 1080)},
      {"2160p gray16", packed_layout(Type::u16, 1, 3840, 2160)},
  };
  for (const Format& f : sizes)
    for (const int k : {3, 5, 9, 15, 31, 59, 101, 255}) {
      GaussianParams params;
      params.kernel_size = k;
      params.sigma = 0.3 * ((k - 1) * 0.5 - 1) + 0.8;  // as OpenCV finds it from a size
      Row row = row_for(f.layout, params);
      row.frame = f.frame;
      row.parameters = sized(k);
      row.quick = f.layout.plane[0].channels == 4 && (k == 5 || k == 15 || k == 59);
      const Layout layout = f.layout;
      // Beyond 59 taps NPP takes hundreds of milliseconds a call.
      if (k <= 59)
        row.peers = [layout, params] {
          return npp_gaussian(layout, params.kernel_size, params.sigma);
        };
      bench.run(row);
    }

  // Over the size of the frame, beside 1080p and 2160p above.
  const struct {
    const char* frame;
    int width, height;
  } others[] = {{"360p RGBA", 640, 360},
                {"720p RGBA", 1280, 720},
                {"1440p RGBA", 2560, 1440},
                {"4320p RGBA", 7680, 4320}};
  for (const auto& o : others)
    for (const int k : {15, 59}) {
      GaussianParams params;
      params.kernel_size = k;
      params.sigma = 0.3 * ((k - 1) * 0.5 - 1) + 0.8;
      Row row = row_for(packed_layout(Type::u8, 4, o.width, o.height), params);
      row.frame = o.frame;
      row.parameters = sized(k);
      bench.run(row);
    }

  const Format video[] = {
      {"1080p NV12", nv12_layout(1920, 1080)},
      {"2160p NV12", nv12_layout(3840, 2160)},
      {"2160p P010", p010_layout(3840, 2160)},
      {"2160p I420", i420_layout(3840, 2160)},
      {"2160p RGB", packed_layout(Type::u8, 3, 3840, 2160)},
      {"1080p f32", packed_layout(Type::f32, 1, 1920, 1080)},
  };
  for (const Format& f : video)
    for (const double sigma : {1.5, 5.0}) {
      GaussianParams params;
      params.sigma = sigma;
      Row row = row_for(f.layout, params);
      row.frame = f.frame;
      row.parameters = "sigma " + number(sigma, 1);
      row.quick = f.layout.planes == 2 && f.layout.plane[0].width == 1920;
      bench.run(row);
    }

  // In place costs what saving the tiles' edges costs; beside the same rows out of place above.
  for (const Format& f : {sizes[0], sizes[2]})
    for (const int k : {5, 15, 31}) {
      GaussianParams params;
      params.kernel_size = k;
      params.sigma = 0.3 * ((k - 1) * 0.5 - 1) + 0.8;
      Row row = row_for(f.layout, params);
      row.frame = f.frame;
      row.parameters = sized(k) + " in place";
      row.in_place = true;
      row.quick = k == 15;
      bench.run(row);
    }
}

}  // namespace vf::bench
