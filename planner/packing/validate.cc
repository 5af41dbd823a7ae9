#include "planner/packing/validate.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage::packing {

namespace {

constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

class Verifier {
 public:
  Verifier(const Problem& problem, const Solution& solution, size_t limit)
      : problem_(problem), solution_(solution), limit_(limit) {}

  std::vector<Violation> Run() {
    const size_t count = problem_.buffers.size();
    if (solution_.offsets.size() != count) {
      Add(ViolationKind::kBadCount, {},
          StrCat("the solution has ", solution_.offsets.size(), " offsets for ",
                 count, " buffers"));
      return std::move(violations_);
    }
    Bytes top = 0;
    for (size_t i = 0; i < count; ++i) {
      VerifyBuffer(i);
      top = std::max(top, End(i));
    }
    VerifyOverlaps();
    if (solution_.height != top) {
      Add(ViolationKind::kWrongHeight, {},
          StrCat("the height is given as ", solution_.height,
                 " bytes, but the largest end is ", top));
    }
    if (problem_.capacity && top > *problem_.capacity) {
      Add(ViolationKind::kOverCapacity, {},
          StrCat("the largest end is ", top, " bytes, above the capacity of ",
                 *problem_.capacity));
    }
    return std::move(violations_);
  }

 private:
  Bytes Start(size_t i) const { return solution_.offsets[i]; }

  // offset + size, or the largest number there is when that does not fit.
  Bytes End(size_t i) const {
    const Bytes size = problem_.buffers[i].size;
    return Start(i) > kMaxBytes - size ? kMaxBytes : Start(i) + size;
  }

  void Add(ViolationKind kind, std::vector<size_t> buffers, std::string text) {
    if (violations_.size() < limit_) {
      violations_.push_back({kind, std::move(buffers), std::move(text)});
    }
  }

  std::string Drawn(size_t i) const {
    const Buffer& b = problem_.buffers[i];
    return StrCat(BufferName(problem_, i), " (bytes [", Start(i), ", ", End(i),
                  "), times [", b.lower, ", ", b.upper, "))");
  }

  void VerifyBuffer(size_t i) {
    const Buffer& b = problem_.buffers[i];
    if (Start(i) < 0) {
      Add(ViolationKind::kNegativeOffset, {i},
          StrCat("buffer ", Drawn(i), " has a negative offset"));
    }
    if (Start(i) > kMaxBytes - b.size) {
      Add(ViolationKind::kOverflow, {i},
          StrCat("buffer ", BufferName(problem_, i), " ends at ", Start(i),
                 " + ", b.size, ", which does not fit 64 bits"));
    }
    if (Start(i) % b.alignment != 0) {
      Add(ViolationKind::kMisaligned, {i},
          StrCat("buffer ", Drawn(i), " is not at a multiple of its alignment ",
                 b.alignment));
    }
    if (b.offset && Start(i) != *b.offset) {
      Add(ViolationKind::kMovedFixed, {i},
          StrCat("buffer ", Drawn(i), " was fixed at offset ", *b.offset));
    }
  }

  // Walks time forward with the live buffers ordered by address. They are kept
  // disjoint: a buffer that overlaps one of them is reported and left out, so a
  // newcomer can only hit those that start inside it or the one just below it.
  void VerifyOverlaps() {
    struct Event {
      Time time;
      bool birth;
      size_t buffer;
    };
    std::vector<Event> events;
    for (size_t i = 0; i < problem_.buffers.size(); ++i) {
      const Buffer& b = problem_.buffers[i];
      if (b.size == 0) continue;
      events.push_back({b.lower, true, i});
      events.push_back({b.upper, false, i});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      if (a.time != b.time) return a.time < b.time;
      if (a.birth != b.birth) return b.birth;
      return a.buffer < b.buffer;
    });

    std::set<std::pair<Bytes, size_t>> live;  // by offset
    for (const Event& event : events) {
      if (violations_.size() >= limit_) return;
      const size_t i = event.buffer;
      if (!event.birth) {
        live.erase({Start(i), i});
        continue;
      }
      bool clear = true;
      auto other = live.lower_bound({Start(i), 0});
      if (other != live.begin()) {
        const auto below = std::prev(other);
        if (End(below->second) > Start(i)) {
          AddOverlap(below->second, i);
          clear = false;
        }
      }
      for (; other != live.end() && other->first < End(i); ++other) {
        AddOverlap(other->second, i);
        clear = false;
      }
      if (clear) live.insert({Start(i), i});
    }
  }

  void AddOverlap(size_t a, size_t b) {
    if (violations_.size() >= limit_) return;
    const Buffer& x = problem_.buffers[a];
    const Buffer& y = problem_.buffers[b];
    Add(ViolationKind::kOverlap, {std::min(a, b), std::max(a, b)},
        StrCat("buffers ", Drawn(a), " and ", Drawn(b), " share bytes [",
               std::max(Start(a), Start(b)), ", ", std::min(End(a), End(b)),
               ") during times [", std::max(x.lower, y.lower), ", ",
               std::min(x.upper, y.upper), ")"));
  }

  const Problem& problem_;
  const Solution& solution_;
  const size_t limit_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> Validate(const Problem& problem,
                                const Solution& solution, size_t limit) {
  STOWAGE_CHECK(limit >= 1);
  return Verifier(problem, solution, limit).Run();
}

namespace {

// The largest sum of live sizes, and the first time at which it lives. `change`
// is what is born less what dies at each of the times, which ascend.
template <typename TimeOf>
void FindFullest(const std::vector<Bytes>& change, TimeOf time_of,
                 LowerBound* bound) {
  Bytes live = 0;
  for (size_t i = 0; i < change.size(); ++i) {
    live += change[i];
    if (live > bound->live) {
      bound->live = live;
      bound->time = time_of(i);
    }
  }
}

}  // namespace

LowerBound ComputeLowerBound(const Problem& problem) {
  LowerBound bound;
  if (problem.buffers.empty()) return bound;
  Time first = problem.buffers[0].lower;
  Time last = problem.buffers[0].upper;
  for (const Buffer& b : problem.buffers) {
    first = std::min(first, b.lower);
    last = std::max(last, b.upper);
  }
  bound.time = first;
  const size_t count = problem.buffers.size();
  // The difference of any two times fits an unsigned number.
  const uint64_t span =
      static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
  if (span <= 4 * static_cast<uint64_t>(count)) {
    std::vector<Bytes> change(static_cast<size_t>(span) + 1, 0);
    for (const Buffer& b : problem.buffers) {
      change[static_cast<size_t>(b.lower - first)] += b.size;
      change[static_cast<size_t>(b.upper - first)] -= b.size;
    }
    FindFullest(
        change, [&](size_t i) { return first + static_cast<Time>(i); }, &bound);
  } else {
    std::vector<Time> times;
    times.reserve(2 * count);
    for (const Buffer& b : problem.buffers) {
      times.push_back(b.lower);
      times.push_back(b.upper);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    std::vector<Bytes> change(times.size(), 0);
    const auto at = [&](Time time) -> Bytes& {
      return change[static_cast<size_t>(
          std::lower_bound(times.begin(), times.end(), time) - times.begin())];
    };
    for (const Buffer& b : problem.buffers) {
      at(b.lower) += b.size;
      at(b.upper) -= b.size;
    }
    FindFullest(
        change, [&](size_t i) { return times[i]; }, &bound);
  }
  bound.bytes = bound.live;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset && *b.offset + b.size > bound.bytes) {
      bound.bytes = *b.offset + b.size;
      bound.fixed = i;
    }
  }
  return bound;
}

std::vector<size_t> LiveAt(const Problem& problem, Time time) {
  std::vector<size_t> live;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.lower <= time && time < b.upper) live.push_back(i);
  }
  std::stable_sort(live.begin(), live.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].size > problem.buffers[b].size;
  });
  return live;
}

}  // namespace stowage::packing
