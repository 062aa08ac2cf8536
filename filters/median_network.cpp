#include "filters/median_network.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

namespace vf {
namespace {

using Op = MedianNetwork::Op;
using List = std::vector<int>;  // operations whose values are sorted, or are to be

// These stand for values below and above all others and pad lists. They never reach `ops`.
constexpr int kLowest = -1, kHighest = -2;

class Program {
 public:
  int load(int row, int column) { return input(Op::load, row, column); }
  int shared(int value, int column) { return input(Op::shared, value, column); }
  int apply(Op::Kind kind, int a, int b) {
    if (a == b) return a;
    const int absorbing = kind == Op::minimum ? kLowest : kHighest;
    const int neutral = kind == Op::minimum ? kHighest : kLowest;
    if (a == absorbing || b == absorbing) return absorbing;
    if (a == neutral) return b;
    if (b == neutral) return a;
    if (a > b) std::swap(a, b);
    const unsigned long long key =
        (static_cast<unsigned long long>(a) << 32 | unsigned(b)) << 1 | (kind == Op::maximum);
    const auto [at, fresh] = known_.try_emplace(key, int(ops.size()));
    if (fresh) ops.push_back({kind, a, b});
    return at->second;
  }
  void exchange(int a, int b, int* low, int* high) {
    *low = apply(Op::minimum, a, b);
    *high = apply(Op::maximum, a, b);
  }
  std::vector<char> needed(const List& outputs) const {
    std::vector<char> need(ops.size(), 0);
    for (const int v : outputs)
      if (v >= 0) need[v] = 1;
    for (int i = int(ops.size()) - 1; i >= 0; i--)
      if (need[i] && ops[i].compares()) need[ops[i].a] = need[ops[i].b] = 1;
    return need;
  }
  int comparisons(const List& outputs) const {
    const std::vector<char> need = needed(outputs);
    int n = 0;
    for (size_t i = 0; i < ops.size(); i++) n += need[i] && ops[i].compares();
    return n;
  }

  std::vector<Op> ops;

 private:
  int input(Op::Kind kind, int a, int b) {
    const auto [at, fresh] = inputs_.try_emplace(std::make_tuple(kind, a, b), int(ops.size()));
    if (fresh) ops.push_back({kind, a, b});
    return at->second;
  }
  std::map<std::tuple<Op::Kind, int, int>, int> inputs_;
  std::unordered_map<unsigned long long, int> known_;
};

List slice(const List& v, int low, int high) {
  return List(v.begin() + low, v.begin() + std::max(low, high + 1));
}

// Batcher's odd-even merge for lists of any two lengths.
List odd_even_merge(Program& p, const List& a, const List& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  if (a.size() == 1 && b.size() == 1) {
    List out(2);
    p.exchange(a[0], b[0], &out[0], &out[1]);
    return out;
  }
  List half[2][2];
  for (size_t i = 0; i < a.size(); i++) half[0][i & 1].push_back(a[i]);
  for (size_t i = 0; i < b.size(); i++) half[1][i & 1].push_back(b[i]);
  const List v = odd_even_merge(p, half[0][0], half[1][0]);
  const List w = odd_even_merge(p, half[0][1], half[1][1]);
  List out = {v[0]};
  const size_t n = std::min(w.size(), v.size() - 1);
  for (size_t i = 0; i < n; i++) {
    int low, high;
    p.exchange(w[i], v[i + 1], &low, &high);
    out.push_back(low);
    out.push_back(high);
  }
  out.insert(out.end(), w.begin() + n, w.end());
  out.insert(out.end(), v.begin() + n + 1, v.end());
  return out;
}

// A way to merge two sorted lists and keep the ranks low to high of the result. It is an odd-even
// merge, possibly with padding below a or b and with both swapped, or it computes each rank on its
// own as a maximum of minima. The smallest way depends on the lengths, so all are tried.
struct Way {
  bool direct;
  int pad_a, pad_b;
  bool swapped;
};
constexpr Way kWays[] = {{false, 0, 0, false}, {false, 1, 0, false}, {false, 0, 1, false},
                         {false, 1, 1, false}, {false, 0, 0, true},  {false, 1, 0, true},
                         {false, 0, 1, true},  {true, 0, 0, false}};
constexpr int kMaxDirectRanks = 4;  // with more ranks it is never the smallest

List merge_by(Program& p, const List& a, const List& b, int low, int high, const Way& way) {
  if (!way.direct) {
    List aa(way.pad_a, kLowest), bb(way.pad_b, kLowest);
    aa.insert(aa.end(), a.begin(), a.end());
    bb.insert(bb.end(), b.begin(), b.end());
    const int pad = way.pad_a + way.pad_b;
    return slice(way.swapped ? odd_even_merge(p, bb, aa) : odd_even_merge(p, aa, bb), pad + low,
                 pad + high);
  }
  const int na = int(a.size()), nb = int(b.size());
  List out;
  for (int rank = low; rank <= high; rank++) {
    // Rank r of the merged list is the largest min(a[i], b[r - i]), with the lists going on
    // upwards.
    List terms;
    for (int i = std::max(0, rank - nb); i <= std::min(na, rank); i++) {
      const int x = i < na ? a[i] : kHighest, y = rank - i < nb ? b[rank - i] : kHighest;
      if (x != kHighest || y != kHighest) terms.push_back(p.apply(Op::minimum, x, y));
    }
    while (terms.size() > 1) {
      List next;
      for (size_t t = 0; t < terms.size(); t += 2)
        next.push_back(t + 1 < terms.size() ? p.apply(Op::maximum, terms[t], terms[t + 1])
                                            : terms[t]);
      terms = next;
    }
    out.push_back(terms[0]);
  }
  return out;
}

class Generator {
 public:
  // `group` is the number of columns whose sorted lists tiles share. 0 shares none.
  Generator(int size_x, int size_y, int group = 0)
      : size_x_(size_x), size_y_(size_y), rank_(size_x * size_y / 2), group_(group) {}

  // Returns the outputs, row by row, of a tile whose top left pixel is at (x0, y0) of the
  // footprint.
  List tile(int tile_x, int tile_y, int x0, int y0) {
    x0_ = x0, y0_ = y0;
    group_column_ = tile_x - 1, group_row_ = tile_y - 1;
    columns_.clear();
    rows_.clear();
    List outputs(tile_x * tile_y);
    Core core;
    const int first = tile_x - 1, count = size_x_ - first, column_size = size_y_ - (tile_y - 1);
    const int total = count * column_size;
    const int low = std::max(0, total - rank_ - 1), high = std::min(total - 1, rank_);
    std::vector<List> parts = columns(first, size_x_, tile_y - 1, size_y_);
    // Most values of a large core are dropped again, so columns are added a few at a time, and
    // values are dropped early.
    if (size_x_ * size_y_ >= kIncrementalFrom) {
      const int lists = int(parts.size()), per_list = (count + lists - 1) / lists;
      int next = std::max(1, rank_ * 4 / 5 / (column_size * per_list));
      next = std::min(next, lists);
      core.values = merge_tree(parts, 0, next);
      while (next < lists) {
        const int n = std::min(std::max(1, 4 / per_list), lists - next);
        add(&core, merge_tree(parts, next, next + n));
        next += n;
      }
      add(&core, {});
    } else {
      core.values = merge_all(parts, low, high);
      core.below = low;
      core.above = total - 1 - high;
    }
    split(core, 0, 0, tile_x, tile_y, tile_x, &outputs);
    return outputs;
  }

  // Returns the lists that tile() took from a group, one after the other.
  List group() {
    std::map<std::pair<int, int>, List> made;
    const std::function<List(int, int)> list = [&](int column, int count) -> List {
      List& out = made[{column, count}];
      if (!out.empty()) return out;
      if (count > 1)
        return out = merge(list(column, count / 2), list(column + count / 2, count / 2));
      List pixels;
      for (int y = group_row_; y < size_y_; y++) pixels.push_back(program.load(y, column));
      return out = sort(std::move(pixels));
    };
    List outputs;
    for (const auto& [column, count] : taken_) {
      const List values = list(column, count);
      outputs.insert(outputs.end(), values.begin(), values.end());
    }
    return outputs;
  }

  Program program;

 private:
  // Windows of at least this many pixels build their core incrementally: 17 x 17 gains by it, 15 x
  // 15 loses.
  static constexpr int kIncrementalFrom = 256;

  struct Core {
    List values;
    int below = 0, above = 0;  // values of the window dropped on either side
  };

  List merge(const List& a, const List& b, int low, int high) {
    if (a.empty() || b.empty()) return slice(a.empty() ? b : a, low, high);
    return merge_by(program, a, b, low, high, best_way(int(a.size()), int(b.size()), low, high));
  }
  List merge(const List& a, const List& b) { return merge(a, b, 0, int(a.size() + b.size()) - 1); }

  const Way& best_way(int na, int nb, int low, int high) {
    const auto [at, fresh] = ways_.try_emplace({na, nb, low, high}, 0);
    if (fresh) {
      int minimum = -1;
      for (int w = 0; w < int(std::size(kWays)); w++) {
        if (kWays[w].direct && high - low >= kMaxDirectRanks) continue;
        Program trial;
        List a, b;
        for (int i = 0; i < na; i++) a.push_back(trial.load(0, i));
        for (int i = 0; i < nb; i++) b.push_back(trial.load(1, i));
        const List out = merge_by(trial, a, b, low, high, kWays[w]);
        const int cost = trial.comparisons(out);
        if (minimum < 0 || cost < minimum) minimum = cost, at->second = w;
      }
    }
    return kWays[at->second];
  }

  // Merges lists two at a time, shortest first.
  List merge_all(std::vector<List> lists, int low = 0, int high = -1) {
    lists.erase(std::remove_if(lists.begin(), lists.end(), [](const List& l) { return l.empty(); }),
                lists.end());
    if (lists.empty()) return {};
    while (lists.size() > 1) {
      std::stable_sort(lists.begin(), lists.end(),
                       [](const List& a, const List& b) { return a.size() < b.size(); });
      const List a = lists[0], b = lists[1];
      if (lists.size() == 2) return high < 0 ? merge(a, b) : merge(a, b, low, high);
      lists.erase(lists.begin(), lists.begin() + 2);
      lists.push_back(merge(a, b));
    }
    return high < 0 ? lists[0] : slice(lists[0], low, high);
  }

  List merge_tree(const std::vector<List>& lists, int begin, int end) {
    if (end - begin == 1) return lists[begin];
    const int middle = begin + (end - begin) / 2;
    return merge(merge_tree(lists, begin, middle), merge_tree(lists, middle, end));
  }

  List sort(List v) {
    if (v.size() <= 1) return v;
    const size_t half = v.size() / 2;
    List back(v.begin() + half, v.end());
    v.resize(half);
    List front = sort(std::move(v));
    return merge(front, sort(std::move(back)));
  }

  // Returns the sorted pixels [begin, end) of column or row `at`, made from the longest part of
  // them that is sorted already.
  using Pieces = std::map<std::tuple<int, int, int>, List>;
  template <class Pixel>
  List piece(Pieces& pieces, int at, int begin, int end, Pixel&& pixel) {
    const auto key = std::make_tuple(at, begin, end);
    if (const auto found = pieces.find(key); found != pieces.end()) return found->second;
    const List* base = nullptr;
    int b0 = begin, b1 = begin;
    for (auto i = pieces.lower_bound({at, begin, begin});
         i != pieces.end() && std::get<0>(i->first) == at; ++i) {
      const int p0 = std::get<1>(i->first), p1 = std::get<2>(i->first);
      if (p1 <= end && p1 - p0 > b1 - b0) base = &i->second, b0 = p0, b1 = p1;
    }
    List rest;
    for (int i = begin; i < b0; i++) rest.push_back(pixel(i));
    for (int i = b1; i < end; i++) rest.push_back(pixel(i));
    List sorted = base ? merge(*base, sort(rest)) : sort(rest);
    return pieces[key] = std::move(sorted);
  }
  List column(int x, int begin, int end) {
    return piece(columns_, x, begin, end, [&](int y) { return program.load(y + y0_, x + x0_); });
  }
  // Returns columns begin to end as sorted lists: one list per shared group, or one per column.
  std::vector<List> columns(int begin, int end, int y0, int y1) {
    std::vector<List> lists;
    const bool shared = group_ && y0 == group_row_ && y1 == size_y_;
    for (int n; begin < end; begin += n) {
      for (n = shared ? group_ : 1; n > 1 && (begin + n > end || in_group(begin) % n); n /= 2) {
      }
      lists.push_back(shared ? shared_list(begin, n) : column(begin, y0, y1));
    }
    return lists;
  }
  int in_group(int x) const { return ((x - group_column_) % group_ + group_) % group_; }
  // Returns the sorted values of `count` columns from x on, as outputs of the group that has them.
  List shared_list(int x, int count) {
    const std::pair<int, int> key = {in_group(x), count};
    auto at = std::find(taken_.begin(), taken_.end(), key);
    if (at == taken_.end()) at = taken_.insert(at, key);
    int first = 0;
    for (auto i = taken_.begin(); i != at; ++i) first += i->second * (size_y_ - group_row_);
    List values;
    for (int i = 0; i < count * (size_y_ - group_row_); i++)
      values.push_back(program.shared(first + i, x - key.first));
    return values;
  }
  List row(int y, int begin, int end) {
    return piece(rows_, y, begin, end, [&](int x) { return program.load(y + y0_, x + x0_); });
  }

  // Merges values into the core and drops those that can no longer be the median.
  void add(Core* core, const List& values) {
    const int p = int(core->values.size() + values.size());
    const int low = std::max(0, p + core->above - rank_ - 1);
    const int high = std::min(p - 1, rank_ - core->below);
    core->values = merge(core->values, values, low, high);
    core->below += low;
    core->above += p - 1 - high;
  }

  // `core` holds the rows and columns that all windows of the part of the tile at (x, y) share.
  void split(const Core& core, int x, int y, int tile_x, int tile_y, int pitch, List* outputs) {
    if (tile_x == 1 && tile_y == 1) {
      (*outputs)[y * pitch + x] = core.values[0];
      return;
    }
    const int x0 = x + tile_x - 1, x1 = x + size_x_, y0 = y + tile_y - 1, y1 = y + size_y_;
    const bool across = tile_x >= tile_y;
    const int half = (across ? tile_x : tile_y) / 2;
    spans_.emplace_back(x0, x1);
    for (int i = 0; i < 2; i++) {
      Core child = core;
      std::vector<List> extra;
      if (across) {
        const int nx = x + i * half;
        extra = columns(nx + half - 1, x0, y0, y1);
        for (List& more : columns(x1, nx + size_x_, y0, y1)) extra.push_back(std::move(more));
        add(&child, merge_all(std::move(extra)));
        split(child, nx, y, half, tile_y, pitch, outputs);
      } else {
        const int ny = y + i * half;
        for (int r = ny + half - 1; r < ny + size_y_; r++)
          if (r < y0 || r >= y1) extra.push_back(row_in_parts(r));
        add(&child, merge_all(std::move(extra)));
        split(child, x, ny, tile_x, half, pitch, outputs);
      }
    }
    spans_.pop_back();
  }

  // Returns a row of the columns that all windows of this part of the tile share. It is made from
  // the pieces that the enclosing parts share.
  List row_in_parts(int y) {
    for (const auto& [begin, end] : spans_) row(y, begin, end);
    return row(y, spans_.back().first, spans_.back().second);
  }

  int size_x_, size_y_, rank_, x0_ = 0, y0_ = 0;
  int group_, group_column_ = 0, group_row_ = 0;  // first column of groups and row of lists
  std::vector<std::pair<int, int>> taken_;        // lists of a group: first column, columns
  std::vector<std::pair<int, int>> spans_;        // shared columns of this and outer parts
  Pieces columns_, rows_;
  std::map<std::tuple<int, int, int, int>, int> ways_;
};

// Drops operations that no output needs and numbers the others anew, with inputs just before their
// first use.
void keep_needed(const Program& program, const List& outputs, MedianNetwork* net) {
  const std::vector<char> need = program.needed(outputs);
  List number(need.size(), -1);
  const auto keep = [&](int i) {
    const Op& op = program.ops[i];
    Op kept = op;
    if (op.compares()) {
      kept.a = number[op.a];
      kept.b = number[op.b];
      net->comparisons++;
    }
    number[i] = int(net->ops.size());
    net->ops.push_back(kept);
  };
  for (int i = 0; i < int(need.size()); i++) {
    const Op& op = program.ops[i];
    if (!need[i] || !op.compares()) continue;
    for (const int v : {op.a, op.b})
      if (number[v] < 0) keep(v);
    keep(i);
  }
  for (const int v : outputs) {
    if (number[v] < 0) keep(v);  // a 1x1 window
    net->outputs.push_back(number[v]);
  }
}

MedianNetwork make_network(int size_x, int size_y, int tile_x, int tile_y) {
  Generator g(size_x, size_y);
  MedianNetwork net{size_x, size_y, tile_x, tile_y, {}, {}, 0};
  List outputs(tile_x * tile_y);
  // A tile wider than the window has no core. It is made of several small tiles that share equal
  // operations.
  const auto part = [](int size, int tile) {
    return size == 1 ? 1 : std::min(tile, tile < size ? tile : 2);
  };
  const int part_x = part(size_x, tile_x), part_y = part(size_y, tile_y);
  for (int y = 0; y < tile_y; y += part_y)
    for (int x = 0; x < tile_x; x += part_x) {
      const List out = g.tile(part_x, part_y, x, y);
      for (int j = 0; j < part_y; j++)
        for (int i = 0; i < part_x; i++) outputs[(y + j) * tile_x + x + i] = out[j * part_x + i];
    }
  keep_needed(g.program, outputs, &net);
  return net;
}

}  // namespace

const MedianNetwork& median_network(int size_x, int size_y, int tile_x, int tile_y) {
  static std::mutex mutex;
  static std::map<std::array<int, 4>, MedianNetwork> networks;
  const std::array<int, 4> key = {size_x, size_y, tile_x, tile_y};
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = networks.find(key);
  if (found != networks.end()) return found->second;
  return networks.emplace(key, make_network(size_x, size_y, tile_x, tile_y)).first->second;
}

SharedMedianNetwork shared_median_network(int size_x, int size_y, int tile_x, int tile_y,
                                          int group) {
  SharedMedianNetwork net;
  Generator g(size_x, size_y, group);
  net.tile = {size_x, size_y, tile_x, tile_y, {}, {}, 0};
  keep_needed(g.program, g.tile(tile_x, tile_y, 0, 0), &net.tile);
  g.program = {};
  net.columns = {size_x, size_y, group, 1, {}, {}, 0};
  keep_needed(g.program, g.group(), &net.columns);
  return net;
}

}  // namespace vf
