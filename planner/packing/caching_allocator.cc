#include "planner/packing/caching_allocator.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace stowage::packing {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kRounding = 512;       // requests, and the least block
constexpr Bytes kSmallRequest = kMiB;  // the largest one served as small
constexpr Bytes kSmallSegment = 2 * kMiB;
constexpr Bytes kMediumRequest = 10 * kMiB;  // the least with its own segment
constexpr Bytes kMediumSegment = 20 * kMiB;
constexpr Bytes kLargeRounding = 2 * kMiB;

// One pool of segments. Addresses count up as segments are reserved; segments
// never touch, so blocks of two segments are never taken for neighbours.
class Pool {
 public:
  explicit Pool(bool small) : small_(small) {}

  Bytes reserved() const { return reserved_; }

  // The address of a block of at least `size` bytes.
  Bytes Allocate(Bytes size) {
    auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) {
      const Bytes segment = SegmentFor(size);
      AddFree(next_address_, segment);
      next_address_ += segment + 1;
      reserved_ += segment;
      found = by_size_.lower_bound({size, 0});
    }
    const auto [block, address] = *found;
    RemoveFree(address, block);
    const Bytes rest = block - size;
    const bool split = small_ ? rest >= kRounding : rest > kSmallRequest;
    if (split) AddFree(address + size, rest);
    taken_[address] = split ? size : block;
    return address;
  }

  void Free(Bytes address) {
    const auto taken = taken_.find(address);
    Bytes size = taken->second;
    taken_.erase(taken);
    auto above = by_address_.lower_bound(address);
    if (above != by_address_.begin()) {
      const auto [start, length] = *std::prev(above);
      if (start + length == address) {
        RemoveFree(start, length);
        address = start;
        size += length;
      }
    }
    above = by_address_.find(address + size);
    if (above != by_address_.end()) {
      const auto [start, length] = *above;
      RemoveFree(start, length);
      size += length;
    }
    AddFree(address, size);
  }

 private:
  Bytes SegmentFor(Bytes size) const {
    if (small_) return kSmallSegment;
    if (size < kMediumRequest) return kMediumSegment;
    return AlignUp(size, kLargeRounding);
  }

  void AddFree(Bytes address, Bytes size) {
    by_size_.insert({size, address});
    by_address_[address] = size;
  }

  void RemoveFree(Bytes address, Bytes size) {
    by_size_.erase({size, address});
    by_address_.erase(address);
  }

  const bool small_;
  Bytes reserved_ = 0;
  Bytes next_address_ = 0;
  std::set<std::pair<Bytes, Bytes>> by_size_;  // free blocks: {size, address}
  std::map<Bytes, Bytes> by_address_;          // free blocks: address -> size
  std::map<Bytes, Bytes> taken_;               // blocks in use, likewise
};

}  // namespace

Bytes SimulateCachingAllocator(const Problem& problem) {
  struct Event {
    Time time;
    int rank;  // 0 a free, 1 an early allocation, 2 any other
    size_t buffer;
  };
  Time begin = 0;
  Time end = 0;
  std::optional<Bytes> most = 0;  // that can ever be reserved
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    begin = i == 0 ? b.lower : std::min(begin, b.lower);
    end = i == 0 ? b.upper : std::max(end, b.upper);
    if (most) most = CheckedAdd(*most, b.size);
    if (most) most = CheckedAdd(*most, kMediumSegment + kMiB);
  }
  if (!most) return std::numeric_limits<Bytes>::max();
  std::vector<Event> events;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.size == 0 || b.lower >= b.upper) continue;
    const bool early = b.offset || (b.lower == begin && b.upper == end);
    events.push_back({b.lower, early ? 1 : 2, i});
    events.push_back({b.upper, 0, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.rank != b.rank) return a.rank < b.rank;
    return a.buffer < b.buffer;
  });

  Pool small(true);
  Pool large(false);
  std::vector<Bytes> addresses(problem.buffers.size());
  for (const Event& event : events) {
    const Bytes size = AlignUp(problem.buffers[event.buffer].size, kRounding);
    Pool& pool = size <= kSmallRequest ? small : large;
    if (event.rank == 0) {
      pool.Free(addresses[event.buffer]);
    } else {
      addresses[event.buffer] = pool.Allocate(size);
    }
  }
  return small.reserved() + large.reserved();
}

}  // namespace stowage::packing
