#include "cpu/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/strided.h"
#include "ir/dtype.h"

namespace stowage::cpu::internal {
namespace {

constexpr int64_t kStageElements = 512;
constexpr size_t kWidestElement = 8;  // bytes

// Copies `count` elements that lie `stride` elements apart next to each other.
template <size_t kWidth>
void Gather(const std::byte* from, int64_t stride, int64_t count,
            std::byte* to) {
  const int64_t step = stride * static_cast<int64_t>(kWidth);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * static_cast<int64_t>(kWidth), from + i * step, kWidth);
  }
}

void Gather(size_t width, const std::byte* from, int64_t stride, int64_t count,
            std::byte* to) {
  switch (width) {
    case 1:
      return Gather<1>(from, stride, count, to);
    case 2:
      return Gather<2>(from, stride, count, to);
    case 4:
      return Gather<4>(from, stride, count, to);
    case 8:
      return Gather<8>(from, stride, count, to);
  }
  STOWAGE_CHECK(false);
}

// One operand within a run: its elements, contiguous.
class Stage {
 public:
  void SetOperand(const TensorView& operand) {
    data_ = operand.data;
    width_ = static_cast<size_t>(SizeOf(operand.dtype()));
  }
  // A run of `count` elements from element `offset` of the operand on.
  void StartRun(int64_t offset, int64_t stride, int64_t count) {
    first_ = data_ + offset * Width();
    stride_ = stride;
    if (stride == 0) {
      Gather(width_, first_, 0, std::min(count, kStageElements), buffer_);
    }
  }
  bool direct() const { return stride_ == 1; }
  // Elements [i, i + count) of the run.
  const std::byte* Get(int64_t i, int64_t count) {
    if (stride_ == 1) return first_ + i * Width();
    if (stride_ != 0) {
      Gather(width_, first_ + i * stride_ * Width(), stride_, count, buffer_);
    }
    return buffer_;
  }

 private:
  int64_t Width() const { return static_cast<int64_t>(width_); }

  const std::byte* data_ = nullptr;
  const std::byte* first_ = nullptr;
  size_t width_ = 0;
  int64_t stride_ = 1;
  alignas(64)
      std::byte buffer_[static_cast<size_t>(kStageElements) * kWidestElement];
};

template <size_t... k>
void Run(const Launch& launch, ThreadPool& pool, ElementwiseBody body,
         std::index_sequence<k...>) {
  const TensorView& y = launch.outputs[0];
  const auto width = static_cast<int64_t>(SizeOf(y.dtype()));
  const StridedWalk<sizeof...(k)> walk(y.shape(),
                                       {&launch.inputs[k].strides...});
  ParallelRanges(
      pool, y.size(), kChunkElements, [&](int64_t begin, int64_t end) {
        std::array<Stage, sizeof...(k)> stages;
        (stages[k].SetOperand(launch.inputs[k]), ...);
        walk.Runs(begin, end,
                  [&](int64_t index, const auto& offsets, int64_t count) {
                    (stages[k].StartRun(offsets[k],
                                        count == 1 ? 1 : walk.inner(k), count),
                     ...);
                    const bool direct = (stages[k].direct() && ...);
                    const int64_t block = direct ? count : kStageElements;
                    for (int64_t i = 0; i < count; i += block) {
                      const int64_t n = std::min(block, count - i);
                      const std::byte* operands[] = {stages[k].Get(i, n)...};
                      body.run(body.body, n, index + i,
                               y.data + (index + i) * width, operands);
                    }
                  });
      });
}

}  // namespace

void RunElementwise(const Launch& launch, ThreadPool& pool, int operands,
                    ElementwiseBody body) {
  switch (operands) {
    case 1:
      return Run(launch, pool, body, std::make_index_sequence<1>{});
    case 2:
      return Run(launch, pool, body, std::make_index_sequence<2>{});
    case 3:
      return Run(launch, pool, body, std::make_index_sequence<3>{});
  }
  STOWAGE_CHECK(false);
}

}  // namespace stowage::cpu::internal
