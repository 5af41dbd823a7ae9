#include "cluster/rank_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/result.h"
#include "math/small_floats.h"

namespace stowage::cluster {
namespace {

// The addition of a type: stored as T, with each sum rounded to it.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum Load(Stored x) { return x; }
  static Sum Round(Sum x) { return x; }
  static Stored Store(Sum x) { return x; }
};
struct BFloat16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored x) { return math::BFloat16ToFloat(x); }
  static Sum Round(Sum x) { return Load(Store(x)); }
  static Stored Store(Sum x) { return math::FloatToBFloat16(x); }
};
struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored x) { return math::HalfToFloat(x); }
  static Sum Round(Sum x) { return Load(Store(x)); }
  static Stored Store(Sum x) { return math::FloatToHalf(x); }
};

// parts[0] + parts[1] + ..., each of `bytes` bytes. `sum` may be one of the parts.
template <typename Type>
void Sum(std::span<const std::byte* const> parts, size_t bytes,
         std::byte* sum) {
  using Stored = typename Type::Stored;
  constexpr size_t kTile = 1024 / sizeof(Stored);  // stays in the fastest cache
  std::array<typename Type::Sum, kTile> tile;
  std::array<Stored, kTile> stored;
  for (size_t begin = 0; begin < bytes; begin += sizeof(stored)) {
    const size_t size = std::min(sizeof(stored), bytes - begin);
    const size_t count = size / sizeof(Stored);
    for (size_t part = 0; part < parts.size(); ++part) {
      std::memcpy(stored.data(), parts[part] + begin, size);
      for (size_t i = 0; i < count; ++i) {
        const auto value = Type::Load(stored[i]);
        tile[i] = part == 0 ? value : Type::Round(tile[i] + value);
      }
    }
    for (size_t i = 0; i < count; ++i) stored[i] = Type::Store(tile[i]);
    std::memcpy(sum + begin, stored.data(), size);
  }
}

void SumOf(DType dtype, std::span<const std::byte* const> parts, size_t bytes,
           std::byte* sum) {
  switch (dtype) {
    case DType::kF32:
      return Sum<Plain<float>>(parts, bytes, sum);
    case DType::kF64:
      return Sum<Plain<double>>(parts, bytes, sum);
    case DType::kBF16:
      return Sum<BFloat16>(parts, bytes, sum);
    case DType::kF16:
      return Sum<Half>(parts, bytes, sum);
    case DType::kI32:  // sums wrap around, as those of unsigned numbers may
      return Sum<Plain<uint32_t>>(parts, bytes, sum);
    case DType::kI64:
      return Sum<Plain<uint64_t>>(parts, bytes, sum);
    default:
      STOWAGE_CHECK(false);
  }
}

// At most `count` bytes from `begin` on.
template <typename Byte>
std::span<Byte> Part(std::span<Byte> bytes, size_t begin, size_t count) {
  begin = std::min(begin, bytes.size());
  return bytes.subspan(begin, std::min(count, bytes.size() - begin));
}

// The size of a block of ceil(n / ranks) elements.
size_t BlockBytes(DType dtype, size_t bytes, int ranks) {
  const auto element = static_cast<size_t>(SizeOf(dtype));
  const auto count = static_cast<size_t>(ranks);
  return (bytes / element + count - 1) / count * element;
}

}  // namespace

RankCollectives::RankCollectives(Link& link)
    : link_(link), parts_(static_cast<size_t>(link.ranks())) {
  outgoing_.reserve(parts_.size());
  incoming_.reserve(parts_.size());
}

// Sums this rank's block over all ranks, chunk by chunk.
bool RankCollectives::Reduce(DType dtype, std::span<const std::byte> values,
                             size_t block, std::span<std::byte> sum,
                             std::span<std::byte> scratch) noexcept {
  const size_t others = parts_.size() - 1;
  const auto mine = static_cast<size_t>(rank());
  const size_t chunk =
      others == 0 ? block
                  : std::max(scratch.size() / others / 64 * 64, size_t{64});
  STOWAGE_CHECK(others == 0 ||
                scratch.size() >= others * std::min(chunk, block));
  for (size_t begin = 0; begin < block; begin += chunk) {
    const size_t size = std::min(chunk, block - begin);
    const std::span own = Part(values, mine * block + begin, size);
    outgoing_.clear();
    incoming_.clear();
    size_t slot = 0;
    for (size_t other = 0; other <= others; ++other) {
      if (other == mine) {
        parts_[other] = own.data();
        continue;
      }
      const auto peer = static_cast<int>(other);
      const std::span received = Part(scratch, slot * chunk, own.size());
      parts_[other] = received.data();
      outgoing_.push_back({peer, Part(values, other * block + begin, size)});
      incoming_.push_back({peer, received});
      ++slot;
    }
    if (!link_.Exchange(outgoing_, incoming_)) return false;
    SumOf(dtype, parts_, own.size(), sum.data() + begin);
  }
  return true;
}

// Sends every rank's block of `values` to all.
bool RankCollectives::Gather(std::span<std::byte> values,
                             size_t block) noexcept {
  const auto mine = static_cast<size_t>(rank());
  outgoing_.clear();
  incoming_.clear();
  for (size_t other = 0; other < parts_.size(); ++other) {
    if (other == mine) continue;
    const auto peer = static_cast<int>(other);
    outgoing_.push_back({peer, Part(values, mine * block, block)});
    incoming_.push_back({peer, Part(values, other * block, block)});
  }
  return link_.Exchange(outgoing_, incoming_);
}

bool RankCollectives::AllReduce(DType dtype, std::span<std::byte> values,
                                std::span<std::byte> scratch) noexcept {
  const size_t block = BlockBytes(dtype, values.size(), ranks());
  const std::span own =
      Part(values, static_cast<size_t>(rank()) * block, block);
  return Reduce(dtype, values, block, own, scratch) && Gather(values, block);
}

bool RankCollectives::ReduceScatter(DType dtype,
                                    std::span<const std::byte> values,
                                    std::span<std::byte> block,
                                    std::span<std::byte> scratch) noexcept {
  return Reduce(dtype, values, block.size(), block, scratch);
}

bool RankCollectives::AllGather(std::span<const std::byte> block,
                                std::span<std::byte> values) noexcept {
  const std::span own =
      Part(values, static_cast<size_t>(rank()) * block.size(), block.size());
  if (!own.empty()) std::memcpy(own.data(), block.data(), own.size());
  return Gather(values, block.size());
}

bool RankCollectives::Broadcast(std::span<std::byte> values) noexcept {
  const size_t block = BlockBytes(DType::kU8, values.size(), ranks());
  outgoing_.clear();
  incoming_.clear();
  if (rank() == 0) {
    for (int other = 1; other < ranks(); ++other) {
      outgoing_.push_back(
          {other, Part(values, static_cast<size_t>(other) * block, block)});
    }
  } else {
    incoming_.push_back(
        {0, Part(values, static_cast<size_t>(rank()) * block, block)});
  }
  return link_.Exchange(outgoing_, incoming_) && Gather(values, block);
}

Result<std::vector<std::string>> GatherTexts(RankCollectives& collectives,
                                             const std::string& text) {
  const Error lost{ErrorCode::kRankLost, "[cluster] a rank was lost"};
  const auto ranks = static_cast<size_t>(collectives.ranks());
  const uint64_t size = text.size();
  std::vector<uint64_t> sizes(ranks);
  if (!collectives.AllGather(std::as_bytes(std::span(&size, 1)),
                             std::as_writable_bytes(std::span(sizes)))) {
    return lost;
  }
  const uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::string padded = text;
  padded.resize(longest);
  std::string all(longest * ranks, '\0');
  if (!collectives.AllGather(std::as_bytes(std::span(padded)),
                             std::as_writable_bytes(std::span(all)))) {
    return lost;
  }
  std::vector<std::string> texts(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    texts[rank] = all.substr(rank * longest, sizes[rank]);
  }
  return texts;
}

}  // namespace stowage::cluster
