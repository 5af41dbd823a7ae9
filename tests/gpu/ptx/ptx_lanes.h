#ifndef STOWAGE_TESTS_GPU_PTX_PTX_LANES_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_LANES_H_

// How what a lane does on its own becomes an operation: a function of elements is
// applied to the 32 lanes of its operands, and a table names it.
//
//   LaneTable table;
//   table.Two<uint32_t, uint32_t, uint32_t, Add>("add.u32");
//   return table.Take();

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {

template <typename T>
using Unsigned =
    std::conditional_t<sizeof(T) == 8, uint64_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;

template <typename D, typename A, typename F>
void Map1(Warp& warp, const Instruction& in) {
  const A* a = warp.Read<A>(in.slots[1]);
  alignas(64) D d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(F()(a[i]));
  warp.Write(in.slots[0], d);
}

template <typename D, typename A, typename B, typename F>
void Map2(Warp& warp, const Instruction& in) {
  const A* a = warp.Read<A>(in.slots[1]);
  const B* b = warp.Read<B>(in.slots[2]);
  alignas(64) D d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(F()(a[i], b[i]));
  warp.Write(in.slots[0], d);
}

template <typename D, typename A, typename C, typename F>
void Map3(Warp& warp, const Instruction& in) {
  const A* a = warp.Read<A>(in.slots[1]);
  const A* b = warp.Read<A>(in.slots[2]);
  const C* c = warp.Read<C>(in.slots[3]);
  alignas(64) D d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(F()(a[i], b[i], c[i]));
  warp.Write(in.slots[0], d);
}

template <typename T>
constexpr uint8_t Size() {
  return sizeof(T);
}

/// Operations of lanes on their own: their results are what their operands are
/// (Operation::lane_wise).
class LaneTable {
 public:
  template <typename D, typename A, typename F>
  void One(const std::string& name) {
    rows_.push_back({name, Map1<D, A, F>, Flow::kNext, {Size<D>(), Size<A>()}});
  }
  template <typename D, typename A, typename B, typename F>
  void Two(const std::string& name) {
    rows_.push_back({name,
                     Map2<D, A, B, F>,
                     Flow::kNext,
                     {Size<D>(), Size<A>(), Size<B>()}});
  }
  template <typename D, typename A, typename C, typename F>
  void Three(const std::string& name) {
    rows_.push_back({name,
                     Map3<D, A, C, F>,
                     Flow::kNext,
                     {Size<D>(), Size<A>(), Size<A>(), Size<C>()}});
  }
  void Row(const std::string& name, Handler run, std::vector<uint8_t> widths) {
    rows_.push_back({name, run, Flow::kNext, std::move(widths)});
  }

  std::vector<Operation> Take() {
    for (Operation& row : rows_) row.lane_wise = true;
    return std::move(rows_);
  }

 private:
  std::vector<Operation> rows_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_LANES_H_
