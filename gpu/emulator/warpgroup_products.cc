#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/emulator/context.h"
#include "gpu/emulator/warpgroup.h"

namespace stowage::gpu::emulator {
namespace {

constexpr size_t kDepth = 16;  // of a factor
constexpr size_t kWarps = 4, kWarpgroupLanes = 32;
constexpr size_t kStripRows = 16;  // of a left factor, of a warp
constexpr size_t kMaxProductBytes = 16 * 4 * sizeof(float);  // of an array

// The value of sums under way: NaN.
const std::array<std::byte, kMaxProductBytes>& Noise() {
  static const std::array<std::byte, kMaxProductBytes> noise = [] {
    std::array<std::byte, kMaxProductBytes> bytes;
    bytes.fill(std::byte{0xFF});
    return bytes;
  }();
  return noise;
}

// An array that matmuls may use, as the fence found it; for sums under way, their results.
struct Handed {
  ProductArray array;
  alignas(float) std::array<std::byte, kMaxProductBytes> content;
  int under_way = 0;
};

struct Product {
  int group = 0;
  ProductCall call;  // d and a: of each thread, below
  std::array<float*, kWarpgroupThreads> d;
  std::array<const uint32_t*, kWarpgroupThreads> a;
  // When it was issued, as GatherLeft and GatherRight have it.
  std::vector<uint16_t> a_bits, b_bits;
  bool is_issued = false;
  std::array<bool, kWarps> done = {};  // by warp
};

struct Member {
  int groups = 0;  // committed
  std::vector<Handed> handed;
};

struct WarpgroupState {
  std::array<Member, kWarpgroupThreads> members;
  std::vector<Product> products;         // under way in some warp, oldest first
  std::vector<uint16_t> a_bits, b_bits;  // of one that is compared
};

// The state of the block with this serial.
struct BlockOfWarpgroups {
  uint64_t serial = 0;
  std::vector<WarpgroupState> warpgroups;
};

WarpgroupState& TheWarpgroup() {
  static thread_local BlockOfWarpgroups block;
  if (block.serial != context.serial) {
    block.serial = context.serial;
    block.warpgroups.clear();
    block.warpgroups.resize(static_cast<size_t>(
        (context.block_size + kWarpgroupThreads - 1) / kWarpgroupThreads));
  }
  return block
      .warpgroups[static_cast<size_t>(context.thread / kWarpgroupThreads)];
}

size_t IndexInWarpgroup() {
  return static_cast<size_t>(context.thread % kWarpgroupThreads);
}

Member& Me() { return TheWarpgroup().members[IndexInWarpgroup()]; }

// The thread's array that contains these bytes, or null.
Handed* Find(Member& member, const void* at) {
  const auto* byte = static_cast<const std::byte*>(at);
  for (Handed& handed : member.handed) {
    const auto* first = static_cast<const std::byte*>(handed.array.at);
    if (byte >= first && byte < first + handed.array.bytes) return &handed;
  }
  return nullptr;
}

// --- Factors in shared memory ---

// Fields of the matrix descriptor (PTX ISA, "Matrix Descriptor Format"), in bytes.
struct Tile {
  explicit Tile(uint64_t bits)
      : start(Field(bits, 0)),
        leading(Field(bits, 16)),
        stride(Field(bits, 32)),
        row_bytes(bits >> 62 == 1 ? 128 : 64) {
    if (bits >> 62 != 1 && bits >> 62 != 2) {
      Report("a tile's swizzle is number ", bits >> 62, "; expected 1 or 2");
    }
    if ((bits >> 49 & 7) != 0) {
      Report("a tile's base offset is ", bits >> 49 & 7, "; expected 0");
    }
  }
  static size_t Field(uint64_t bits, int first) {
    return static_cast<size_t>(bits >> first & 0x3FFF) << 4;
  }

  // The place of element (i, k), where a row of the tile is one i, or one k.
  size_t OfRows(size_t i, size_t k) const {
    return Exchange(start + i / 8 * stride + i % 8 * row_bytes + 2 * k);
  }
  size_t OfColumns(size_t i, size_t k) const {
    const size_t width = row_bytes / 2;
    return Exchange(start + k / 8 * stride + k % 8 * row_bytes +
                    i / width * leading + i % width * 2);
  }
  size_t Exchange(size_t byte) const {
    const size_t turn = byte / 128 % (row_bytes / 16);
    return byte ^ turn << 4;
  }

  size_t start, leading, stride, row_bytes;
};

constexpr size_t kProductChunk = 8;  // elements

// 16 bytes, which no swizzle parts.
void ReadChunk(const Product& product, size_t byte, uint16_t* bits) {
  const std::span<std::byte> dynamic = DynamicBytes();
  if (byte + 2 * kProductChunk > dynamic.size()) {
    Report("a product reads byte ", byte, " of the ", dynamic.size(),
           " that the launch asked for");
  }
  if (!IsFenced(byte)) {
    Report("a product reads byte ", byte,
           " of shared memory, which a thread has written without a "
           "ProxyFence since");
  }
  const int first = context.thread / kWarpgroupThreads * kWarpgroupThreads;
  if (!product.is_issued && !HasArrived(byte, first, kWarpgroupThreads)) {
    Report("a product reads byte ", byte,
           " of shared memory, which a copy writes that not all of its threads "
           "have waited for");
  }
  std::memcpy(bits, dynamic.data() + byte, 2 * kProductChunk);
}

// The left factor's rows of one warp, row by row.
void GatherLeft(const Product& product, size_t warp, uint16_t* bits) {
  if (product.call.a == nullptr) {
    const Tile tile(product.call.a_tile);
    for (size_t i = 0; i < kStripRows; ++i) {
      for (size_t k = 0; k < kDepth; k += kProductChunk) {
        ReadChunk(product, tile.OfRows(warp * kStripRows + i, k), bits);
        bits += kProductChunk;
      }
    }
    return;
  }
  for (size_t lane = 0; lane < kWarpgroupLanes; ++lane) {
    const uint32_t* const a = product.a[warp * kWarpgroupLanes + lane];
    for (size_t i = 0; i < 4; ++i) {
      uint16_t* const two =
          bits + (lane / 4 + i % 2 * 8) * kDepth + lane % 4 * 2 + i / 2 * 8;
      two[0] = static_cast<uint16_t>(a[i]);
      two[1] = static_cast<uint16_t>(a[i] >> 16);
    }
  }
}
// The right factor, row by row of its tile.
void GatherRight(const Product& product, uint16_t* bits) {
  const Tile tile(product.call.b_tile);
  const auto columns = static_cast<size_t>(product.call.columns);
  const size_t rows = product.call.rows_of_b ? columns : kDepth;
  const size_t row = product.call.rows_of_b ? kDepth : columns;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < row; j += kProductChunk) {
      ReadChunk(
          product,
          product.call.rows_of_b ? tile.OfRows(i, j) : tile.OfColumns(j, i),
          bits);
      bits += kProductChunk;
    }
  }
}

// --- Issue ---

// Its sums and left factors are those at the last fence.
void CheckHanded(Member& member, const ProductCall& call) {
  Handed* const sums = Find(member, call.d);
  if (sums == nullptr) Report("a product's sums are behind no WarpgroupFence");
  const std::byte* const wanted =
      sums->under_way > 0 ? Noise().data() : sums->content.data();
  if (std::memcmp(sums->array.at, wanted, sums->array.bytes) != 0) {
    Report("a product's sums were changed behind the WarpgroupFence");
  }
  if (sums->under_way++ == 0) {
    std::memcpy(sums->array.at, Noise().data(), sums->array.bytes);
  }
  if (call.a == nullptr) return;
  Handed* const left = Find(member, call.a);
  if (left == nullptr) {
    Report("a product's left factor is behind no WarpgroupFence");
  }
  if (std::memcmp(left->array.at, left->content.data(), left->array.bytes) !=
      0) {
    Report("a product's left factor was changed behind the WarpgroupFence");
  }
  ++left->under_way;
}

void CompleteIssue(void* const* arguments) {
  WarpgroupState& state = TheWarpgroup();
  Product& product = state.products.emplace_back();
  product.call = *static_cast<const ProductCall*>(arguments[0]);
  product.group = state.members[0].groups;
  for (size_t i = 0; i < kWarpgroupThreads; ++i) {
    const auto& call = *static_cast<const ProductCall*>(arguments[i]);
    if (call.a_tile != product.call.a_tile ||
        call.b_tile != product.call.b_tile || call.add != product.call.add) {
      Report("threads of a warpgroup issue a product of different tiles");
    }
    if (state.members[i].groups != product.group) {
      Report("threads of a warpgroup have committed different groups");
    }
    CheckHanded(state.members[i], call);
    product.d[i] = call.d;
    product.a[i] = call.a;
  }
  constexpr size_t kStrip = kStripRows * kDepth;
  product.a_bits.resize(kWarps * kStrip);
  product.b_bits.resize(kDepth * static_cast<size_t>(product.call.columns));
  for (size_t warp = 0; warp < kWarps; ++warp) {
    GatherLeft(product, warp, product.a_bits.data() + warp * kStrip);
  }
  GatherRight(product, product.b_bits.data());
  product.is_issued = true;
}

// --- Completion ---

void AddStrip(WarpgroupState& state, const Product& product, size_t warp) {
  const auto columns = static_cast<size_t>(product.call.columns);
  const auto to_float = product.call.to_float;
  std::vector<float> b(kDepth * columns), sums(kStripRows * columns);
  for (size_t k = 0; k < kDepth; ++k) {
    for (size_t n = 0; n < columns; ++n) {
      b[k * columns + n] =
          to_float(product.b_bits[product.call.rows_of_b ? n * kDepth + k
                                                         : k * columns + n]);
    }
  }
  for (size_t i = 0; i < kStripRows; ++i) {
    for (size_t k = 0; k < kDepth; ++k) {
      const float a =
          to_float(product.a_bits[(warp * kStripRows + i) * kDepth + k]);
      for (size_t n = 0; n < columns; ++n) {
        sums[i * columns + n] += a * b[k * columns + n];
      }
    }
  }
  for (size_t lane = 0; lane < kWarpgroupLanes; ++lane) {
    const size_t thread = warp * kWarpgroupLanes + lane;
    Member& member = state.members[thread];
    Handed* const d = Find(member, product.d[thread]);
    auto* const values = reinterpret_cast<float*>(d->content.data());
    for (size_t i = 0; i < columns / 2; ++i) {
      const size_t row = lane / 4 + i % 4 / 2 * 8;
      const size_t column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      values[i] =
          (product.call.add ? values[i] : 0) + sums[row * columns + column];
    }
    --d->under_way;
    if (product.a[thread] != nullptr) {
      --Find(member, product.a[thread])->under_way;
    }
  }
}

void Complete(WarpgroupState& state, Product& product, size_t warp) {
  constexpr size_t kStrip = kStripRows * kDepth;
  state.a_bits.resize(kStrip);
  state.b_bits.resize(product.b_bits.size());
  GatherLeft(product, warp, state.a_bits.data());
  GatherRight(product, state.b_bits.data());
  if (!std::equal(
          state.a_bits.begin(), state.a_bits.end(),
          product.a_bits.begin() + static_cast<ptrdiff_t>(warp * kStrip)) ||
      state.b_bits != product.b_bits) {
    Report("what a product reads was changed while it was under way");
  }
  AddStrip(state, product, warp);
  product.done[warp] = true;
}

}  // namespace

// --- What the words call ---

uint32_t SharedByteOf(const void* shared) {
  return static_cast<uint32_t>(static_cast<const std::byte*>(shared) -
                               DynamicBytes().data());
}

void FenceProxies() {
  FenceCopies();
  FenceBarriers();
}

void FenceProduct(const ProductArray& array) {
  STOWAGE_CHECK(array.bytes <= kMaxProductBytes);
  Member& me = Me();
  Handed* handed = Find(me, array.at);
  if (handed == nullptr) handed = &me.handed.emplace_back();
  if (handed->under_way > 0) {
    Report("WarpgroupFence names an array that a product uses");
  }
  handed->array = array;
  std::memcpy(handed->content.data(), array.at, array.bytes);
}

void IssueProduct(ProductCall& call, const Site& site) {
  AwaitWarpgroup(CompleteIssue, &call, site);
}

void CommitProducts() { ++Me().groups; }

void AwaitProducts(int groups_left) {
  WarpgroupState& state = TheWarpgroup();
  const int done = Me().groups - groups_left;  // groups before this one
  const size_t warp = IndexInWarpgroup() / kWarpgroupLanes;
  for (Product& product : state.products) {
    if (product.group < done && !product.done[warp]) {
      Complete(state, product, warp);
    }
  }
  std::erase_if(state.products, [](const Product& product) {
    return std::ranges::all_of(product.done, [](bool done) { return done; });
  });
}

void TakeBack(const ProductArray& array) {
  Member& me = Me();
  const auto found =
      std::ranges::find(me.handed, array.at,
                        [](const Handed& handed) { return handed.array.at; });
  if (found == me.handed.end()) return;
  if (found->under_way > 0) {
    Report("WarpgroupWait names an array that a product still uses");
  }
  if (array.is_sums) {
    std::memcpy(array.at, found->content.data(), array.bytes);
  }
  me.handed.erase(found);
}

}  // namespace stowage::gpu::emulator
