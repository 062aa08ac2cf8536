// Compares the letterbox with OpenCV: with LetterBox as Ultralytics writes it with cv2's resize and
// copyMakeBorder, and with the warp of the TensorRT examples, which use cv2's inverse of the
// matrix. It runs on the CPU backend. The kernel tests check that the others are equal to it.
#include <cstdio>

#if VF_HAVE_OPENCV

#include <algorithm>
#include <cmath>
#include <memory>
#include <opencv2/imgproc.hpp>

#include "filters/letterbox.h"

using namespace vf;

namespace {

int number = 0, failed = 0;

void report(const char* name, int w, int h, int W, int H, const char* failure) {
  number++;
  if (*failure) failed++;
  printf("%s %d - letterbox against OpenCV %s %dx%d to %dx%d\n", *failure ? "not ok" : "ok", number,
         name, w, h, W, H);
  if (*failure) printf("# %s\n", failure);
}

Image image_of(cv::Mat& m, Type type, int channels) {
  Image image;
  image.layout = packed_layout(type, channels, m.cols, m.rows);
  image.data[0] = m.data;
  image.stride[0] = ptrdiff_t(m.step);
  return image;
}

ColorFormat bgr() {
  ColorFormat f;
  f.role[0][0] = Role::b;
  f.role[0][1] = Role::g;
  f.role[0][2] = Role::r;
  return f;
}

ColorFormat gray() {
  ColorFormat f;
  f.role[0][0] = Role::y;
  return f;
}

cv::Mat noise(int w, int h, int type) {
  cv::Mat m(h, w, type);
  static cv::RNG rng(20261120);
  rng.fill(m, cv::RNG::UNIFORM, 0, 256);
  return m;
}

Status ours(Queue& queue, cv::Mat& in, cv::Mat* out, int W, int H, const LetterboxParams& p) {
  LetterboxGeometry g;
  VF_TRY(letterbox_geometry(in.cols, in.rows, W, H, p, &g));
  *out = cv::Mat(g.height, g.width, in.type());
  const ColorFormat format = in.channels() == 3 ? bgr() : gray();
  const Image src = image_of(in, Type::u8, in.channels()),
              dst = image_of(*out, Type::u8, in.channels());
  std::unique_ptr<Plan> plan;
  VF_TRY(make_letterbox(queue, src.layout, format, dst.layout, format, g, p, &plan));
  VF_TRY(plan->run(src, dst));
  return queue.sync();
}

// Does what LetterBox.__call__ does, line by line. Python rounds halves to even.
cv::Mat letterbox(const cv::Mat& img, int W, int H, const LetterboxParams& p, int flags) {
  double r = std::min(double(H) / img.rows, double(W) / img.cols);
  if (!p.scale_up) r = std::min(r, 1.0);
  const int w = int(std::nearbyint(img.cols * r)), h = int(std::nearbyint(img.rows * r));
  if (w < 1 || h < 1) return {};
  double dw = W - w, dh = H - h;
  if (p.stride) dw = std::fmod(dw, p.stride), dh = std::fmod(dh, p.stride);
  const bool center = p.align == LetterboxAlign::center;
  if (center) dw /= 2, dh /= 2;
  cv::Mat resized = img;
  if (img.cols != w || img.rows != h) cv::resize(img, resized, {w, h}, 0, 0, flags);
  const int top = center ? int(std::nearbyint(dh - 0.1)) : 0,
            bottom = int(std::nearbyint(dh + 0.1));
  const int left = center ? int(std::nearbyint(dw - 0.1)) : 0,
            right = int(std::nearbyint(dw + 0.1));
  cv::Mat out;
  cv::copyMakeBorder(resized, out, top, bottom, left, right, cv::BORDER_CONSTANT,
                     cv::Scalar(114, 114, 114));
  return out;
}

const char* compare(const cv::Mat& got, const cv::Mat& want, int tolerance) {
  static char text[200];
  if (got.size() != want.size()) {
    snprintf(text, sizeof text, "%dx%d, not %dx%d", got.cols, got.rows, want.cols, want.rows);
    return text;
  }
  const int worst = int(cv::norm(got, want, cv::NORM_INF));
  snprintf(text, sizeof text, "differs by up to %d, on average by %g", worst,
           cv::norm(got, want, cv::NORM_L1) / double(got.total() * got.channels()));
  return worst <= tolerance ? "" : text;
}

void ultralytics(Queue& queue, int w, int h, int W, int H, const LetterboxParams& params,
                 int type) {
  const struct {
    const char* name;
    Interpolation ours;
    int cv;
    int tolerance;
  } modes[] = {{"bilinear", Interpolation::bilinear, cv::INTER_LINEAR, 0},
               {"nearest", Interpolation::nearest, cv::INTER_NEAREST, 0},
               {"area", Interpolation::area, cv::INTER_AREA, 1}};
  for (const auto& mode : modes) {
    cv::Mat in = noise(w, h, type), got;
    LetterboxParams p = params;
    p.interpolation = mode.ours;
    const cv::Mat want = letterbox(in, W, H, p, mode.cv);
    if (want.empty()) continue;  // cv2 cannot make a picture of no pixels
    // If the picture grows, INTER_AREA is another interpolation.
    if (mode.ours == Interpolation::area && (W > w || H > h) && p.scale_up) continue;
    const Status s = ours(queue, in, &got, W, H, p);
    report(mode.name, w, h, W, H, s.ok() ? compare(got, want, mode.tolerance) : s.message());
  }
}

// Compares with the examples' warp to a planar tensor, in their float arithmetic.
void affine(Queue& queue, int w, int h, int W, int H) {
  cv::Mat in = noise(w, h, CV_8UC3);
  const float scale = std::min(float(W) / float(w), float(H) / float(h));
  cv::Mat forward(2, 3, CV_32F, cv::Scalar(0)), inverse;
  forward.at<float>(0, 0) = forward.at<float>(1, 1) = scale;
  forward.at<float>(0, 2) = float(-scale * float(w) * 0.5 + W * 0.5 + scale * 0.5 - 0.5);
  forward.at<float>(1, 2) = float(-scale * float(h) * 0.5 + H * 0.5 + scale * 0.5 - 0.5);
  cv::invertAffineTransform(forward, inverse);
  const float mx = inverse.at<float>(0, 0), my = inverse.at<float>(1, 1);
  const float zx = inverse.at<float>(0, 2), zy = inverse.at<float>(1, 2);

  LetterboxParams p;
  p.rule = LetterboxRule::affine;
  LetterboxGeometry g;
  cv::Mat got(3 * H, W, CV_32F);
  Image src = image_of(in, Type::u8, 3), dst;
  dst.layout.type = Type::f32;
  dst.layout.planes = 3;
  ColorFormat tensor;
  const Role roles[3] = {Role::r, Role::g, Role::b};
  for (int c = 0; c < 3; c++) {
    dst.layout.plane[c].width = W;
    dst.layout.plane[c].height = H;
    dst.data[c] = got.ptr<float>(c * H);
    dst.stride[c] = ptrdiff_t(got.step);
    tensor.role[c][0] = roles[c];
  }
  const auto run = [&]() -> Status {
    VF_TRY(letterbox_geometry(w, h, W, H, p, &g));
    std::unique_ptr<Plan> plan;
    VF_TRY(make_letterbox(queue, src.layout, bgr(), dst.layout, tensor, g, p, &plan));
    return plan->run(src, dst);
  };
  if (const Status s = run(); !s.ok()) {
    report("affine", w, h, W, H, s.message());
    return;
  }
  char failure[200] = "";
  for (int y = 0; y < H && !*failure; y++)
    for (int x = 0; x < W; x++) {
      const float sx = mx * float(x) + zx, sy = my * float(y) + zy;
      float c[3] = {114, 114, 114};
      if (!(sx <= -1 || sx >= float(w) || sy <= -1 || sy >= float(h))) {
        const int y_low = int(std::floor(sy)), x_low = int(std::floor(sx));
        const float ly = sy - float(y_low), lx = sx - float(x_low), hy = 1 - ly, hx = 1 - lx;
        const float weight[4] = {hy * hx, hy * lx, ly * hx, ly * lx};
        for (int k = 0; k < 3; k++) {
          float v[4];
          for (int i = 0; i < 4; i++) {
            const int px = x_low + i % 2, py = y_low + i / 2;
            const bool inside = px >= 0 && px < w && py >= 0 && py < h;
            v[i] = inside ? float(in.at<cv::Vec3b>(py, px)[k]) : 114.0f;
          }
          c[k] = std::floor(weight[0] * v[0] + weight[1] * v[1] + weight[2] * v[2] +
                            weight[3] * v[3] + 0.5f);
        }
      }
      for (int k = 0; k < 3; k++) {
        const float want = c[2 - k] / 255.0f, have = got.at<float>(k * H + y, x);
        if (want != have && !*failure)
          snprintf(failure, sizeof failure, "at %d, %d plane %d: %.9g, not %.9g", x, y, k, have,
                   want);
      }
    }
  report("affine", w, h, W, H, failure);
}

}  // namespace

int main() {
  cv::setNumThreads(1);
  std::unique_ptr<Queue> queue;
  if (Status s = make_queue({}, &queue); !s.ok()) {
    printf("Bail out! %s\n", s.message());
    return 99;
  }
  const int sizes[][2] = {{1920, 1080}, {641, 359},  {359, 641},   {100, 50},
                          {1, 1},       {5, 300},    {300, 5},     {640, 640},
                          {1280, 720},  {333, 1001}, {1280, 1280}, {2, 2}};
  const int targets[][2] = {{640, 640}, {320, 256}, {97, 131}};
  for (const auto& s : sizes)
    for (const auto& t : targets) {
      LetterboxParams p;
      ultralytics(*queue, s[0], s[1], t[0], t[1], p, CV_8UC3);
      ultralytics(*queue, s[0], s[1], t[0], t[1], p, CV_8UC1);
      p.stride = 32;
      ultralytics(*queue, s[0], s[1], t[0], t[1], p, CV_8UC3);
      p.align = LetterboxAlign::top_left;
      p.scale_up = false;
      ultralytics(*queue, s[0], s[1], t[0], t[1], p, CV_8UC3);
      affine(*queue, s[0], s[1], t[0], t[1]);
    }
  printf("1..%d\n", number);
  return failed ? 1 : 0;
}

#else

int main() {
  printf("1..0 # SKIP built without OpenCV\n");
  return 0;
}

#endif
