#ifndef STOWAGE_TESTS_GPU_PTX_PTX_CLOCK_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_CLOCK_H_

// How much of what others did comes before something: of each agent, up to which of its
// segments (ptx_order.h). An agent is a warp, of which all lanes count or some; or an
// mbarrier, whose segments are its phases.
//
//   Clock clock;
//   clock.AddAll(3, 70);      // warp 3 up to its segment 70
//   clock.AddLane(3, 5, 80);  // lane 5 of it up to 80
//   clock.Covers(3, 5, 75)    // true
//   clock.Covers(3, 6, 75)    // false

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stowage::testing::ptx {

class Clock {
 public:
  void AddAll(size_t agent, uint32_t segment) { Raise(agent, segment, &all_); }
  void AddLane(size_t agent, uint32_t lane, uint32_t segment) {
    Raise(kLanesOfWarp * agent + lane, segment, &lanes_);
  }
  void Join(const Clock& other) {
    for (size_t i = 0; i < other.all_.size(); ++i) AddAll(i, other.all_[i]);
    for (size_t i = 0; i < other.lanes_.size(); ++i) {
      Raise(i, other.lanes_[i], &lanes_);
    }
  }

  /// Whether it has what this lane did in the segment; of a lane beyond 31: what
  /// each of them did.
  bool Covers(size_t agent, uint32_t lane, uint32_t segment) const {
    if (At(agent, all_) >= segment) return true;
    const size_t first = kLanesOfWarp * agent;
    if (lane < kLanesOfWarp) return At(first + lane, lanes_) >= segment;
    for (size_t i = first; i < first + kLanesOfWarp; ++i) {
      if (At(i, lanes_) < segment) return false;
    }
    return true;
  }

 private:
  static constexpr uint32_t kLanesOfWarp = 32;

  static uint32_t At(size_t i, const std::vector<uint32_t>& of) {
    return i < of.size() ? of[i] : 0;
  }
  static void Raise(size_t i, uint32_t segment, std::vector<uint32_t>* of) {
    if (segment == 0) return;
    if (of->size() <= i) of->resize(i + 1);
    (*of)[i] = std::max((*of)[i], segment);
  }

  std::vector<uint32_t> all_;    // by agent: of all its lanes
  std::vector<uint32_t> lanes_;  // beyond that, by agent and lane
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_CLOCK_H_
