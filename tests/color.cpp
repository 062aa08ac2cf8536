// Tests filters/color and its users: code values against the standards' tables, matrices against
// their inverses, and colours in the guided matte's parameters.
#include "filters/color.h"

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "filters/guided.h"
#include "filters/limits.h"
#include "tests/tap.h"

using namespace vf;

namespace {

test::Tap tap;

struct Matrix {
  const char* name;
  double kr, kb;
};
constexpr Matrix kMatrices[] = {
    {"BT.601", 0.299, 0.114}, {"BT.709", 0.2126, 0.0722}, {"BT.2020", 0.2627, 0.0593}};

ColorFormat format_of(ColorModel model, const Matrix& matrix, bool full) {
  ColorFormat f;
  f.kr = matrix.kr;
  f.kb = matrix.kb;
  f.full_range = full;
  const Role roles[][3] = {
      {Role::r, Role::g, Role::b}, {Role::y, Role::u, Role::v}, {Role::y, Role::none, Role::none}};
  for (int c = 0; c < 3; c++) f.role[0][c] = roles[int(model)][c];
  return f;
}

Layout layout_of(int depth) {
  Layout l = packed_layout(depth > 8 ? Type::u16 : Type::u8, 3, 4, 4);
  if (depth % 8) l.max_value = (1 << depth) - 1;
  return l;
}

// ITU-R BT.601, BT.709 and BT.2020 give the codes of black, white and the primaries.
void standards() {
  struct Row {
    uint32_t argb;
    int matrix, depth;
    bool full;
    double want[4];
  };
  const Row rows[] = {
      {0xff000000, 0, 8, false, {16, 128, 128, 255}},
      {0xffffffff, 0, 8, false, {235, 128, 128, 255}},
      {0xffff0000, 0, 8, false, {81, 90, 240, 255}},
      {0xff00ff00, 0, 8, false, {145, 54, 34, 255}},
      {0xff0000ff, 0, 8, false, {41, 240, 110, 255}},
      {0xffff0000, 1, 8, false, {63, 102, 240, 255}},
      {0xff00ff00, 1, 8, false, {173, 42, 26, 255}},
      {0xff0000ff, 1, 8, false, {32, 240, 118, 255}},
      {0xff000000, 2, 10, false, {64, 512, 512, 1023}},
      {0xffffffff, 2, 10, false, {940, 512, 512, 1023}},
      {0xffff0000, 2, 10, false, {294, 387, 960, 1023}},
      {0x80ff0000, 0, 8, true, {76, 85, 255, 128}},
      {0xffffffff, 1, 12, true, {4095, 2048, 2048, 4095}},
      {0x00000000, 1, 16, false, {4096, 32768, 32768, 0}},
  };
  for (const Row& row : rows) {
    const Layout layout = layout_of(row.depth);
    const ColorFormat f = format_of(ColorModel::yuv, kMatrices[row.matrix], row.full);
    double got[4];
    encode_rounded(row.argb, ColorModel::yuv, f, max_code(layout), got);
    char name[96];
    std::snprintf(name, sizeof name, "%08x in %s, %d bits, %s range", row.argb,
                  kMatrices[row.matrix].name, row.depth, row.full ? "full" : "limited");
    bool ok = true;
    for (int i = 0; i < 4; i++) ok = ok && got[i] == row.want[i];
    tap.check(name, ok, "%g %g %g %g, not %g %g %g %g", got[0], got[1], got[2], got[3], row.want[0],
              row.want[1], row.want[2], row.want[3]);
  }
}

// Decoding must undo encoding, and encode() must equal the matrix.
void inverses() {
  for (const ColorModel model : {ColorModel::rgb, ColorModel::yuv})
    for (const Matrix& matrix : kMatrices)
      for (const bool full : {false, true})
        for (const int depth : {8, 10, 16}) {
          const ColorFormat f = format_of(model, matrix, full);
          const int max = (1 << depth) - 1;
          const ColorMatrix there = encoding(model, f, max);
          const ColorMatrix both = compose(decoding(model, f, max), there);
          double worst = 0;
          for (int i = 0; i < 3; i++) {
            worst = std::fmax(worst, std::fabs(both.offset[i]));
            for (int k = 0; k < 3; k++)
              worst = std::fmax(worst, std::fabs(both.m[i][k] - (i == k)));
          }
          for (const uint32_t argb : {0xff3080c0u, 0x00c01040u, 0x80ffff00u}) {
            double code[4];
            encode(argb, model, f, max, code);
            for (int i = 0; i < 3; i++) {
              double v = there.offset[i];
              for (int k = 0; k < 3; k++) v += there.m[i][k] * (argb >> (16 - 8 * k) & 255) / 255.0;
              worst = std::fmax(worst, std::fabs(v - code[i]) / max);
            }
          }
          char name[96];
          std::snprintf(name, sizeof name, "there and back: %s %s, %d bits, %s range",
                        model == ColorModel::rgb ? "RGB" : "YUV", matrix.name, depth,
                        full ? "full" : "limited");
          tap.check(name, worst < 1e-12, "off by %g", worst);
        }
}

// Checks that components get their values by role.
void roles() {
  Layout nv12 = packed_layout(Type::u8, 1, 4, 4);
  nv12.planes = 2;
  nv12.plane[1] = {2, 2, 2};
  ColorFormat f;
  f.kr = 0.299;
  f.kb = 0.114;
  f.full_range = false;
  f.role[0][0] = Role::y;
  f.role[1][0] = Role::v;
  f.role[1][1] = Role::u;
  double value[kMaxPlanes][kMaxChannels];
  code_values(0xffff0000, nv12, f, value);
  tap.check("planes of YUV", model_of(f) == ColorModel::yuv && value[0][0] == 81 &&
                                 value[1][0] == 240 && value[1][1] == 90 && value[0][1] == 0);
  ColorFormat bgrx;
  const Role order[] = {Role::b, Role::g, Role::r, Role::none};
  for (int c = 0; c < 4; c++) bgrx.role[0][c] = order[c];
  code_values(0x80102030, packed_layout(Type::u8, 4, 4, 4), bgrx, value);
  tap.check("BGRx", model_of(bgrx) == ColorModel::rgb && value[0][0] == 0x30 &&
                        value[0][1] == 0x20 && value[0][2] == 0x10 && value[0][3] == 0);
  const MatteChannels m = matte_channels(nv12, f);
  const MatteChannels x = composite_channels(packed_layout(Type::u8, 4, 4, 4), bgrx);
  tap.check("a composite's channels", x.color[0].channel == 2 && x.alpha.plane == 0 &&
                                          x.alpha.channel == 3 &&
                                          composite_channels(nv12, f).alpha.plane == -1);
  tap.check("the guided matte's channels", m.color[0].plane == 0 && m.color[1].plane == 1 &&
                                               m.color[1].channel == 1 && m.color[2].channel == 0 &&
                                               m.alpha.plane == -1);
}

// Checks that a colour's YUV codes convert to its RGB codes, and that its chroma distance from
// another colour does not depend on the format.
// depend on the format.
void matte_colors() {
  double worst = 0, worst_chroma = 0;
  for (const Matrix& matrix : kMatrices)
    for (const bool full : {false, true})
      for (const int depth : {8, 10}) {
        const Layout yuv = layout_of(depth), rgb = packed_layout(Type::u8, 4, 4, 4);
        const ColorFormat from = format_of(ColorModel::yuv, matrix, full);
        ColorFormat to = format_of(ColorModel::rgb, matrix, true);
        GuidedParams p, q;
        set_colors(yuv, from, rgb, to, 0x00ff00, 0x80102030, &p);
        if (p.background_alpha != 1) worst = 1;
        to.role[0][3] = Role::a;
        set_colors(yuv, from, rgb, to, 0x00ff00, 0x80102030, &p);
        set_colors(rgb, to, rgb, to, 0x00ff00, 0x80102030, &q);
        for (const uint32_t argb : {0xffffffffu, 0xff000000u, 0xff3080c0u, 0xffc01040u}) {
          double code[4], cb[2] = {};
          encode(argb, ColorModel::yuv, from, max_code(yuv), code);
          for (int i = 0; i < 3; i++) {
            double v = p.convert[i][3];
            for (int k = 0; k < 3; k++) v += p.convert[i][k] * code[k] / max_code(yuv);
            worst = std::fmax(worst, std::fabs(v - (argb >> (16 - 8 * i) & 255) / 255.0));
          }
          // Only with BT.709 is chroma the same in both.
          if (matrix.kr != 0.2126) continue;
          for (int k = 0; k < 3; k++) {
            cb[0] += p.to_ycbcr[1][k] * (code[k] / max_code(yuv) - p.black[k]);
            cb[1] += q.to_ycbcr[1][k] * (argb >> (16 - 8 * k) & 255) / 255.0;
          }
          worst_chroma = std::fmax(worst_chroma, std::fabs(cb[0] - cb[1]));
        }
        if (q.convert[0][0] != 1 || q.convert[1][0] != 0 || p.background_alpha != 128 / 255.0)
          worst = 1;
      }
  tap.check("YUV to RGB", worst < 1e-12, "off by %g", worst);
  tap.check("chroma of YUV and of RGB", worst_chroma < 1e-12, "off by %g", worst_chroma);
}

void limits() {
  constexpr Limits<int> odd{1, 9, is_odd, "odd"}, zero{0, 9, is_zero_or_odd, "0 or odd"};
  tap.check("odd", odd.allow(9) && !odd.allow(8) && !odd.allow(11) && !odd.allow(0));
  tap.check("0 or odd", zero.allow(0) && zero.allow(3) && !zero.allow(2) && !zero.allow(-1));
  constexpr Limits<double> some{-1, 4, is_minus_one_or_more, "-1, or 0 or more"};
  tap.check("not a number", !some.allow(std::numeric_limits<double>::quiet_NaN()));
  tap.check("-1 or more", some.allow(-1) && !some.allow(-0.5) && some.allow(0));
  const auto refused = [](const Status& status, const char* want) {
    tap.check(want, !status.ok() && std::string_view(status.message()) == want, "%s",
              status.message());
  };
  refused(check_limits("size", 4, odd), "size is 4, but it must be odd, 1 to 9");
  refused(check_limits("size", 4, Limits<int>{5, 9}), "size is 4, but it must be 5 to 9");
  refused(check_limits("gap", -0.5, some), "gap is -0.5, but it must be -1, or 0 or more, -1 to 4");
}

}  // namespace

int main() {
  standards();
  inverses();
  roles();
  matte_colors();
  limits();
  return tap.end();
}
