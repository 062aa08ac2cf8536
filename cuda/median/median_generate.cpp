// The build runs this program. It prints the kernels of cuda/median/median_network.cuh, with a few
// of one format in each source file, and the table that finds them.
//
//   median_generate kernels FILE NAME...   prints these networks. A name has the format and size:
//                                          network_u8_5, or shared_u8_15 with shared columns
//   median_generate table FILE NAME...     prints the table of these networks
#include <algorithm>
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "filters/median_network.h"

namespace {

// Holds a kernel's shape, the fastest on an H200. `share` of 16 exchanges go to the other pipe.
struct Config {
  const char* format;
  int size, tile_x, tile_y;
  const char* order;
  int share, block_x, block_y, min_blocks;
  // Number of columns whose sorted lists threads share, or 0. Devices that can share prefer such a
  // row to the row of the same format and size without a group.
  int group = 0;
  // Threads of a block, or 0 if these are block_x x block_y. The others only sort columns.
  int threads = 0;
};
constexpr Config kConfigs[] = {
    {"u8", 3, 2, 2, "OnInteger", 0, 16, 8, 1},
    {"u8", 5, 4, 2, "WithHalf", 9, 16, 8, 8},
    {"u8", 7, 4, 2, "WithHalf", 8, 16, 8, 5},
    {"u8", 9, 4, 2, "WithHalf", 5, 16, 8, 4},
    {"u8", 11, 4, 4, "WithHalf", 5, 16, 8, 2},
    {"u8", 13, 4, 2, "WithHalf", 4, 16, 8, 2},
    {"u8", 15, 4, 2, "WithHalf", 2, 16, 8, 2},
    {"u16", 3, 2, 2, "OnInteger", 0, 16, 8, 1},
    {"u16", 5, 4, 2, "WithMultiply", 8, 16, 8, 8},
    {"u16", 7, 4, 2, "WithMultiply", 4, 16, 8, 4},
    {"u16", 9, 4, 2, "WithMultiply", 4, 16, 8, 4},
    {"u16", 11, 4, 4, "OnInteger", 0, 16, 8, 2},
    {"u16", 13, 4, 2, "WithMultiply", 3, 16, 8, 2},
    {"u16", 15, 4, 2, "OnInteger", 0, 16, 8, 2},
    {"u16", 17, 4, 2, "OnInteger", 0, 16, 8, 2},
    {"f32", 3, 4, 2, "OnWords", 0, 16, 8, 8},
    {"f32", 5, 4, 2, "OnWords", 0, 16, 8, 8},
    {"f32", 7, 4, 2, "OnWords", 0, 16, 8, 5},
    {"f32", 9, 4, 2, "OnWords", 0, 16, 8, 4},
    {"f32", 11, 4, 4, "OnWords", 0, 16, 8, 2},
    {"f32", 13, 4, 2, "OnWords", 0, 16, 8, 2},
    {"rgba8", 5, 4, 2, "WithHalf", 6, 16, 8, 5},
    {"rgba8", 7, 4, 2, "WithHalf", 8, 16, 8, 5},
    {"rgba8", 9, 4, 2, "WithHalf", 5, 16, 8, 4},
    {"rgba8", 11, 4, 4, "OnInteger", 0, 16, 8, 2},
    {"rgba8", 13, 4, 2, "OnInteger", 0, 16, 8, 2},
    {"rgba8", 15, 4, 2, "OnInteger", 0, 16, 8, 2},
    // These share columns.
    {"u8", 9, 4, 2, "WithHalf", 5, 32, 8, 2, 2},
    {"u8", 11, 4, 2, "WithHalf", 5, 32, 8, 2, 2},
    {"u8", 13, 4, 2, "WithHalf", 4, 32, 8, 1, 4, 288},
    {"u8", 15, 4, 2, "WithHalf", 4, 32, 8, 1, 4, 288},
    {"u8", 17, 4, 2, "WithHalf", 2, 32, 8, 1, 2},
    {"u8", 19, 4, 2, "WithHalf", 2, 32, 8, 1, 2},
    {"u16", 9, 4, 2, "WithMultiply", 4, 32, 8, 2, 2},
    {"u16", 11, 4, 2, "WithMultiply", 3, 32, 8, 2, 2},
    {"u16", 13, 4, 2, "WithMultiply", 3, 32, 8, 1, 4, 288},
    {"u16", 15, 4, 2, "WithMultiply", 3, 32, 8, 1, 4, 288},
    {"u16", 17, 4, 2, "OnInteger", 0, 32, 8, 1, 2},
    {"u16", 19, 4, 2, "OnInteger", 0, 32, 8, 1, 2},
    {"f32", 9, 4, 2, "OnWords", 0, 32, 4, 4, 2},
    {"f32", 11, 4, 2, "OnWords", 0, 32, 4, 3, 2},
    {"f32", 13, 4, 2, "OnWords", 0, 32, 8, 1, 4, 288},
    {"f32", 15, 4, 2, "OnWords", 0, 32, 8, 1, 4, 288},
    {"f32", 17, 4, 2, "OnWords", 0, 32, 8, 1, 2},
    {"f32", 19, 4, 2, "OnWords", 0, 32, 8, 1, 2},
    {"rgba8", 11, 4, 2, "WithHalf", 7, 32, 8, 2, 2},
    {"rgba8", 13, 4, 2, "OnInteger", 0, 32, 4, 3, 2},
    {"rgba8", 15, 4, 2, "WithHalf", 2, 32, 8, 1, 4},
    {"rgba8", 17, 4, 2, "OnInteger", 0, 32, 8, 1, 2},
    {"rgba8", 19, 4, 2, "OnInteger", 0, 32, 8, 1, 2},
};

std::string name(const Config& c) {
  const char* const kind = c.group ? "shared" : "network";
  return std::string(kind) + "_" + c.format + "_" + std::to_string(c.size);
}

// A sorted list of some columns of a group.
struct SharedList {
  int column, columns;  // the first, and their number
  int word, words;
};

// Returns the lists of a group.
std::vector<SharedList> shared_lists(const vf::MedianNetwork& columns, int rows) {
  using Op = vf::MedianNetwork::Op;
  constexpr int kMaxRows = 32;
  using Pixels = std::bitset<4 * kMaxRows>;
  // The pixels of which an operation computes the minimum, or none if it computes another value.
  std::vector<Pixels> minimum_of;
  for (const Op& op : columns.ops) {
    Pixels pixels;
    if (op.kind == Op::load) pixels.set(op.b * kMaxRows + op.a);
    if (op.kind == Op::minimum && minimum_of[op.a].any() && minimum_of[op.b].any())
      pixels = minimum_of[op.a] | minimum_of[op.b];
    minimum_of.push_back(pixels);
  }
  // A list begins with the minimum of its pixels.
  std::vector<SharedList> lists;
  const int end = int(columns.outputs.size());
  for (int word = 0; word < end; word += lists.back().words) {
    const Pixels& pixels = minimum_of[columns.outputs[word]];
    int first = 0;
    while (first < int(pixels.size()) && !pixels[first]) first++;
    lists.push_back({first / kMaxRows, int(pixels.count()) / rows, word, int(pixels.count())});
    if (pixels.none() || lists.back().columns * rows != lists.back().words) abort();
  }
  return lists;
}

// Find the list that has a word, and the list of some columns.
using ListPlace = std::vector<SharedList>::const_iterator;
ListPlace list_with(const std::vector<SharedList>& lists, int word) {
  return std::find_if(lists.begin(), lists.end(), [&](const SharedList& l) {
    return word >= l.word && word < l.word + l.words;
  });
}
ListPlace list_of(const std::vector<SharedList>& lists, int column, int columns) {
  return std::find_if(lists.begin(), lists.end(), [&](const SharedList& l) {
    return l.column == column && l.columns == columns;
  });
}

// Prints the operations of a network as code, one part of them at a time.
struct NetworkPrinter {
  using Op = vf::MedianNetwork::Op;
  FILE* f;
  const vf::MedianNetwork& net;
  std::vector<int> part = std::vector<int>(net.ops.size(), 0);
  std::function<std::string(int)> name = [](int v) { return "v" + std::to_string(v); };
  std::function<std::string(const Op&)> moved = [](const Op&) { return ""; };
  std::function<void(int)> put = [](int) {};
  int exchanges = 0;

  // Returns which operations the outputs need that `wanted` selects.
  template <class Wanted>
  std::vector<char> needed(Wanted wanted) const {
    std::vector<char> need(net.ops.size(), 0);
    for (int i = 0; i < int(net.outputs.size()); i++)
      if (wanted(i)) need[net.outputs[i]] = 1;
    for (int i = int(need.size()) - 1; i >= 0; i--)
      if (need[i] && net.ops[i].compares()) need[net.ops[i].a] = need[net.ops[i].b] = 1;
    return need;
  }

  void print(int which) {
    // The minimum and the maximum of the same two values are one exchange.
    std::map<std::pair<int, int>, int> first;
    std::map<int, int> second;
    const int count = int(net.ops.size());
    for (int i = 0; i < count; i++) {
      if (part[i] != which || !net.ops[i].compares()) continue;
      const auto [at, fresh] = first.try_emplace({net.ops[i].a, net.ops[i].b}, i);
      if (!fresh) second[at->second] = i;
    }
    std::vector<char> made(count, 0);
    for (int i = 0; i < count; i++) {
      const Op& op = net.ops[i];
      if (part[i] != which || made[i]) continue;
      if (!op.compares()) {
        fprintf(f, "    w v%d = %s(%d, %d%s);\n", i, op.kind == Op::load ? "ld" : "sh", op.a, op.b,
                moved(op).c_str());
        continue;
      }
      const std::string a = name(op.a), b = name(op.b);
      if (const auto pair = second.find(i); pair != second.end()) {
        const int low = op.kind == Op::minimum ? i : pair->second;
        const int high = op.kind == Op::minimum ? pair->second : i;
        fprintf(f,
                "    w v%d, v%d; o.template exchange<(%d * S / 16 != %d * S / 16)>(%s, %s, v%d, "
                "v%d);\n",
                low, high, exchanges + 1, exchanges, a.c_str(), b.c_str(), low, high);
        exchanges++;
        made[pair->second] = 1;
        put(low);
        put(high);
      } else {
        fprintf(f, "    w v%d = o.%s(%s, %s);\n", i, op.kind == Op::minimum ? "minimum" : "maximum",
                a.c_str(), b.c_str());
        put(i);
      }
    }
  }
};

// Prints a network whose tiles share nothing.
void print_network(FILE* f, const vf::MedianNetwork& net) {
  NetworkPrinter p{f, net};
  std::multimap<int, int> store;
  for (int i = 0; i < int(net.outputs.size()); i++) store.emplace(net.outputs[i], i);
  p.put = [&](int v) {
    for (auto [at, end] = store.equal_range(v); at != end; ++at)
      fprintf(f, "    st(%d, %d, v%d);\n", at->second / net.tile_x, at->second % net.tile_x, v);
  };
  p.print(0);
}

// Prints the network of a tile. Its left and its right half are two turns of a loop, so that there
// is less code. The right half has the operations of the left half, on other columns.
void print_tile(FILE* f, const vf::MedianNetwork& net, int group,
                const std::vector<SharedList>& lists) {
  using Op = vf::MedianNetwork::Op;
  NetworkPrinter p{f, net};
  const int half = net.tile_x / 2, size = net.size_x, count = int(net.ops.size());
  const auto in_group = [&](int x) { return ((x - net.tile_x + 1) % group + group) % group; };
  const auto first_column = [&](const Op& op) {
    return op.kind == Op::shared ? op.b + list_with(lists, op.a)->column : op.b;
  };
  // Operations that both halves need come before the loop.
  enum { nowhere, before, inside };
  const std::vector<char> left = p.needed([&](int i) { return i % net.tile_x < half; });
  const std::vector<char> right = p.needed([&](int i) { return i % net.tile_x >= half; });
  for (int i = 0; i < count; i++) {
    const Op& op = net.ops[i];
    const int x = op.compares() ? size - 1 : first_column(op);
    const bool both = right[i] && x >= net.tile_x - 1 && x < size;
    if (left[i]) p.part[i] = both ? before : inside;
  }
  p.print(before);
  fprintf(f,
          "    w left[kTileY][%d], right[kTileY][%d] = {};\n#pragma unroll 1\n"
          "    for (int turn = 0; turn < 2; turn++) {\n#pragma unroll\n"
          "    for (int y = 0; y < kTileY; y++)\n#pragma unroll\n"
          "      for (int x = 0; x < %d; x++) left[y][x] = right[y][x];\n",
          half, half, half);
  p.moved = [&](const Op& op) {
    return (op.kind == Op::load ? ", pixel" : ", list") + std::to_string(first_column(op));
  };
  std::set<std::string> known;
  for (int i = 0; i < count; i++) {
    const Op& op = net.ops[i];
    if (p.part[i] != inside || op.compares() || !known.insert(p.moved(op)).second) continue;
    const int x = first_column(op), to = x == 0 || x == size ? x + half : x + size - half + 1;
    fprintf(f, "    const int %s = turn * ", p.moved(op).c_str() + 2);
    if (op.kind == Op::load) {
      fprintf(f, "ld.move(%d, %d);\n", x, to);
      continue;
    }
    const auto from = list_with(lists, op.a);
    const auto other = list_of(lists, in_group(to), from->columns);
    fprintf(f, "sh.move(%d, %d, %d, %d);\n", from->word, op.b, other->word, to - in_group(to));
  }
  p.put = [&](int v) {
    for (int i = 0; i < int(net.outputs.size()); i++)
      if (net.outputs[i] == v)
        fprintf(f, "    right[%d][%d] = v%d;\n", i / net.tile_x, i % net.tile_x, v);
  };
  p.print(inside);
  fprintf(f,
          "    }\n#pragma unroll\n    for (int y = 0; y < kTileY; y++)\n#pragma unroll\n"
          "      for (int x = 0; x < %d; x++) {\n        st(y, x, left[y][x]);\n"
          "        st(y, x + %d, right[y][x]);\n      }\n",
          half, half);
}

// Prints the network that sorts a group of columns. If there are four, the left and the right half
// are two turns of a loop. For two, the loop would cost more than it saves.
void print_columns(FILE* f, const vf::MedianNetwork& net, const std::vector<SharedList>& lists) {
  NetworkPrinter p{f, net};
  const int half = net.tile_x / 2, count = int(net.ops.size());
  const bool loops = half > 1;
  enum { nowhere, inside, after };
  const auto is_left = [&](int i) {
    return list_with(lists, i)->columns <= half && list_with(lists, i)->column < half;
  };
  const std::vector<char> left = p.needed(is_left);
  const std::vector<char> right =
      p.needed([&](int i) { return list_with(lists, i)->columns <= half && !is_left(i); });
  for (int i = 0; i < count; i++)
    p.part[i] = !loops ? after : left[i] ? inside : right[i] ? nowhere : after;
  const auto mine = list_of(lists, 0, half), others = list_of(lists, half, half);
  const int words = mine->words;
  p.moved = [&](const vf::MedianNetwork::Op&) { return loops ? ", turn" : ", 0"; };
  p.put = [&](int v) {
    for (int i = 0; i < int(net.outputs.size()); i++) {
      if (net.outputs[i] != v) continue;
      const auto from = list_with(lists, i);
      if (!loops || !is_left(i)) {
        fprintf(f, "    st(%d, v%d, 0);\n", i, v);
        continue;
      }
      fprintf(f, "    st(%d, v%d, turn * %d);\n", i, v,
              list_of(lists, from->column + half, from->columns)->word - from->word);
      if (from == mine) fprintf(f, "    right[%d] = v%d;\n", i - from->word, v);
    }
  };
  if (loops) {
    fprintf(f,
            "    w left[%d], right[%d] = {};\n#pragma unroll 1\n"
            "    for (int turn = 0; turn < 2; turn++) {\n#pragma unroll\n"
            "    for (int i = 0; i < %d; i++) left[i] = right[i];\n",
            words, words, words);
    p.print(inside);
    fprintf(f, "    }\n");
    p.name = [&](int v) {
      for (int i = 0; i < words; i++) {
        if (net.outputs[mine->word + i] == v) return "left[" + std::to_string(i) + "]";
        if (net.outputs[others->word + i] == v) return "right[" + std::to_string(i) + "]";
      }
      return "v" + std::to_string(v);
    };
  }
  p.print(after);
}

// Prints code for the minima and the maxima of the windows of a tile, from the lists of groups and
// from the pixels of the rows that not all windows of the tile see.
void print_extremes(FILE* f, const Config& c, const std::vector<SharedList>& lists) {
  const int first_row = c.tile_y - 1;
  using Names = std::set<std::string>;
  const auto value = [](const char* name, int a, int b) {
    return std::string(name) + "(" + std::to_string(a) + ", " + std::to_string(b) + ")";
  };
  int values = 0;
  std::map<std::string, std::string> known;
  const auto print = [&](const std::string& code) {
    std::string& name = known[code];
    if (name.empty()) {
      name = "v" + std::to_string(values++);
      fprintf(f, "    w %s = %s;\n", name.c_str(), code.c_str());
    }
    return name;
  };
  for (const bool high : {false, true}) {
    const char* const apply = high ? "o.maximum" : "o.minimum";
    // Prints the extremes of sets of values, of which all have some in common.
    const auto reduce = [&](const std::vector<Names>& sets) {
      Names common = sets[0];
      for (const Names& set : sets)
        for (auto i = common.begin(); i != common.end();)
          i = set.count(*i) ? std::next(i) : common.erase(i);
      const auto all = [&](std::string result, const Names& others) {
        for (const std::string& o : others)
          result = result.empty() ? o : print(std::string(apply) + "(" + result + ", " + o + ")");
        return result;
      };
      const std::string shared = all("", common);
      std::vector<std::string> out;
      for (Names set : sets) {
        for (const std::string& name : common) set.erase(name);
        out.push_back(all(shared, set));
      }
      return out;
    };
    std::vector<Names> sets(c.tile_x);
    for (int x = 0; x < c.tile_x; x++)
      for (int at = x; at < x + c.size;) {
        const int in_group = ((at - c.tile_x + 1) % c.group + c.group) % c.group;
        const SharedList* longest = nullptr;
        for (const SharedList& list : lists)
          if (list.column == in_group && at + list.columns <= x + c.size &&
              (!longest || longest->columns < list.columns))
            longest = &list;
        if (!longest) abort();
        const int word = high ? longest->word + longest->words - 1 : longest->word;
        sets[x].insert(print(value("sh", word, at - in_group)));
        at += longest->columns;
      }
    const std::vector<std::string> core = reduce(sets);
    std::map<int, std::vector<std::string>> rows;
    for (int y = 0; y < c.tile_y; y++)
      for (int row = y; row < y + c.size; row++) {
        if ((row >= first_row && row < c.size) || rows.count(row)) continue;
        for (int x = 0; x < c.tile_x; x++) {
          sets[x].clear();
          for (int i = x; i < x + c.size; i++) sets[x].insert(print(value("ld", row, i)));
        }
        rows[row] = reduce(sets);
      }
    for (int y = 0; y < c.tile_y; y++)
      for (int x = 0; x < c.tile_x; x++) {
        std::string result = core[x];
        for (const auto& [row, extremes] : rows)
          if (row >= y && row < y + c.size)
            result = print(std::string(apply) + "(" + result + ", " + extremes[x] + ")");
        fprintf(f, "    %s[%d][%d] = %s;\n", high ? "high" : "low", y, x, result.c_str());
      }
  }
}

void print_kernel(FILE* f, const Config& c) {
  using Op = vf::MedianNetwork::Op;
  const vf::SharedMedianNetwork shared =
      c.group ? vf::shared_median_network(c.size, c.size, c.tile_x, c.tile_y, c.group)
              : vf::SharedMedianNetwork{{}, vf::median_network(c.size, c.size, c.tile_x, c.tile_y)};
  const vf::MedianNetwork& net = shared.tile;
  const bool has_other =
      std::any_of(std::begin(kConfigs), std::end(kConfigs), [&](const Config& o) {
        return !strcmp(o.format, c.format) && o.size == c.size && !o.group != !c.group;
      });
  fprintf(f,
          "namespace vf::cuda::median {\nnamespace {\n\n"
          "// %d comparisons for %d medians.\n"
          "struct Net_%s {\n"
          "  static constexpr int kSize = %d, kTileX = %d, kTileY = %d, kGroup = %d;\n"
          "  static constexpr auto kRuns = NetworkKernel::%s;\n"
          "  using w = uint32_t;\n",
          net.comparisons, c.tile_x * c.tile_y, name(c).c_str(), c.size, c.tile_x, c.tile_y,
          c.group,
          c.group     ? "where_shared"
          : has_other ? "where_not_shared"
                      : "everywhere");
  std::vector<SharedList> lists;
  if (c.group) {
    lists = shared_lists(shared.columns, c.size - c.tile_y + 1);
    int first = 0, last = 0;
    for (const Op& op : net.ops)
      if (op.kind == Op::shared) first = std::min(first, op.b), last = std::max(last, op.b);
    fprintf(f,
            "  static constexpr int kFirstGroup = %d, kLastGroup = %d, kListWords = %d;\n"
            "  template <int S, class Order, class Load, class Store>\n"
            "  static __device__ __forceinline__ void sort_columns(Order o, Load ld, Store st) {\n",
            first, last, int(shared.columns.outputs.size()));
    print_columns(f, shared.columns, lists);
    fprintf(f,
            "  }\n"
            "  template <class Order, class Load, class Shared>\n"
            "  static __device__ __forceinline__ void extremes(Order o, Load ld, Shared sh,\n"
            "                                                  w (&low)[kTileY][kTileX],\n"
            "                                                  w (&high)[kTileY][kTileX]) {\n");
    print_extremes(f, c, lists);
    fprintf(f, "  }\n");
  }
  fprintf(f,
          "  template <int S, class Order, class Load, class Store%s>\n"
          "  static __device__ __forceinline__ void run(Order o, Load ld, Store st%s) {\n",
          c.group ? ", class Shared" : "", c.group ? ", Shared sh" : "");
  if (c.group)
    print_tile(f, net, c.group, lists);
  else
    print_network(f, net);
  fprintf(f,
          "  }\n};\n\n}  // namespace\n\n"
          "NetworkKernel %s() {\n"
          "  return network_kernel_of<Format::%s, Net_%s, %s, %d, %d, %d, %d, %d>();\n"
          "}\n\n}  // namespace vf::cuda::median\n\n",
          name(c).c_str(), c.format, name(c).c_str(), c.order, c.share, c.block_x, c.block_y,
          c.threads ? c.threads : c.block_x * c.block_y, c.min_blocks);
}

void print_table(FILE* f, const std::vector<const Config*>& networks) {
  fprintf(f, "#include \"cuda/median/median_network.h\"\n\nnamespace vf::cuda::median {\n\n");
  for (const Config* c : networks) fprintf(f, "NetworkKernel %s();\n", name(*c).c_str());
  fprintf(f, "\nNetworkKernel find_network(Format format, int size, bool shared) {\n");
  for (const Config* c : networks)
    fprintf(f, "  if (format == Format::%s && size == %d && %sshared) return %s();\n", c->format,
            c->size, c->group ? "" : "!", name(*c).c_str());
  fprintf(f, "  return {};\n}\n\n}  // namespace vf::cuda::median\n");
}

// Returns whether the file has this content, so that Ninja need not compile it again.
bool holds(const char* path, const char* text, size_t size) {
  FILE* f = fopen(path, "r");
  if (!f) return false;
  std::string old(size + 1, '\0');
  old.resize(fread(&old[0], 1, old.size(), f));
  fclose(f);
  return old.size() == size && !memcmp(old.data(), text, size);
}

bool write(const char* path, const char* text, size_t size) {
  FILE* f = fopen(path, "w");
  if (!f) return false;
  const bool whole = fwrite(text, 1, size, f) == size;
  return fclose(f) == 0 && whole;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::vector<const Config*> networks;
  for (int i = 3; i < argc; i++)
    for (const Config& c : kConfigs)
      if (name(c) == argv[i]) networks.push_back(&c);
  if (argc < 3 || int(networks.size()) != argc - 3 || (what != "kernels" && what != "table")) {
    fprintf(stderr, "usage: median_generate kernels|table FILE NAME...\n");
    return 2;
  }
  char* text = nullptr;
  size_t size = 0;
  FILE* f = open_memstream(&text, &size);
  if (!f) {
    perror("open_memstream");
    return 1;
  }
  fprintf(f, "// Generated by cuda/median/median_generate.cpp.\n");
  if (what == "table") {
    print_table(f, networks);
  } else {
    fprintf(f, "#include \"cuda/median/median_network.cuh\"\n\n");
    for (const Config* c : networks) print_kernel(f, *c);
  }
  fclose(f);
  const bool written = holds(argv[2], text, size) || write(argv[2], text, size);
  if (!written) perror(argv[2]);
  free(text);
  return written ? 0 : 1;
}
