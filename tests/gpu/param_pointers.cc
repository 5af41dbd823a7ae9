#include "tests/gpu/param_pointers.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/strings.h"

namespace stowage::testing {
namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool Contains(uintptr_t at) const { return at >= begin && at < end; }
};

// What this process has mapped, save what is too large to be memory: the
// shadows of sanitizers.
std::vector<Range> MappedRanges() {
  constexpr uintptr_t kLargest = uintptr_t{1} << 40;
  std::vector<Range> ranges;
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(
      std::fopen("/proc/self/maps", "r"), std::fclose);
  STOWAGE_CHECK(maps != nullptr);
  char line[4096];
  while (std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    Range range;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &range.begin, &range.end) ==
            2 &&
        range.end - range.begin < kLargest) {
      ranges.push_back(range);
    }
  }
  STOWAGE_CHECK(!ranges.empty());
  return ranges;
}

// Whether the lower half of a word may be a number of its own: a count, or a float
// between 2^-31 and 2^32. The upper half is then padding, whose stale bytes are
// often those of an address.
bool IsBesidePadding(uint64_t word) {
  const auto half = static_cast<uint32_t>(word);
  return half < 0x10000 || (half >= 0x30000000 && half < 0x50000000);
}

uint64_t AddressOf(std::span<const std::byte> block) {
  return reinterpret_cast<uintptr_t>(block.data());
}

uint64_t WordOf(const CapturedKernel& kernel, size_t word) {
  uint64_t value = 0;
  std::memcpy(&value, kernel.params.data() + 8 * word, sizeof(value));
  return value;
}

class Finder {
 public:
  explicit Finder(const std::vector<MovedBlock>& blocks)
      : blocks_(blocks), mapped_(MappedRanges()) {
    for (const MovedBlock& block : blocks) {
      STOWAGE_CHECK(block.first.size() == block.second.size());
      const uint64_t distance =
          AddressOf(block.second) - AddressOf(block.first);
      STOWAGE_CHECK(static_cast<uint32_t>(distance) != 0);
      STOWAGE_CHECK(std::ranges::find(distances_, distance) ==
                    distances_.end());
      distances_.push_back(distance);
    }
  }

  void AddKernel(size_t index, const CapturedKernel& first,
                 const CapturedKernel& second) {
    if (first.name != second.name ||
        first.params.size() != second.params.size()) {
      found_.faults.push_back(StrCat("kernel ", index, " is ", first.name,
                                     " once and ", second.name, " once"));
      return;
    }
    // A pointer is 8 bytes at a multiple of 8.
    for (size_t word = 0; word < first.params.size() / 8; ++word) {
      const std::string wrong =
          AddWord(index, word, WordOf(first, word), WordOf(second, word));
      if (wrong.empty()) continue;
      found_.faults.push_back(StrCat("kernel ", index, ", ", first.name,
                                     ", word ", word,
                                     " of its params: ", wrong));
    }
  }

  ParamPointers Take() { return std::move(found_); }

 private:
  // What is wrong with a word, or nothing.
  std::string AddWord(size_t kernel, size_t word, uint64_t first,
                      uint64_t second) {
    const auto moved = std::ranges::find(distances_, second - first);
    if (moved != distances_.end()) {
      const auto block = static_cast<size_t>(moved - distances_.begin());
      const auto at =
          static_cast<Bytes>(first - AddressOf(blocks_[block].first));
      const auto size = static_cast<Bytes>(blocks_[block].first.size());
      if (at < 0 || at >= size) {
        return StrCat("points to byte ", at, " of block ", block, " of ", size);
      }
      found_.pointers.push_back({kernel, word, block, at});
      return "";
    }
    if (static_cast<uint32_t>(first) != static_cast<uint32_t>(second)) {
      return "changed, but not as a block of memory moved";
    }
    const bool is_address =
        first == second && first >> 32 != 0 && !IsBesidePadding(first) &&
        std::ranges::any_of(mapped_, [first](const Range& range) {
          return range.Contains(first);
        });
    return is_address ? "is the address of something that did not move" : "";
  }

  const std::vector<MovedBlock>& blocks_;
  const std::vector<Range> mapped_;
  std::vector<uint64_t> distances_;
  ParamPointers found_;
};

}  // namespace

ParamPointers FindPointers(std::span<const CapturedKernel> first,
                           std::span<const CapturedKernel> second,
                           const std::vector<MovedBlock>& blocks) {
  Finder finder(blocks);
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    finder.AddKernel(i, first[i], second[i]);
  }
  ParamPointers found = finder.Take();
  if (first.size() != second.size()) {
    found.faults.push_back(StrCat("there are ", first.size(),
                                  " kernels once and ", second.size(),
                                  " once"));
  }
  return found;
}

}  // namespace stowage::testing
