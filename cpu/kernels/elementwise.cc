#include "cpu/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/result.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/strided.h"
#include "ir/tensor_type.h"

namespace stowage::cpu::internal {
namespace {

constexpr int64_t kStageElements = kBlockElements;
constexpr size_t kWidestElement = 8;  // bytes

// Copies `count` elements that are `stride` elements apart to contiguous memory.
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
  // `width`: bytes of an element in the body.
  void SetOperand(const TensorView& operand, size_t width) {
    data_ = operand.data;
    dtype_ = operand.dtype();
    width_ = static_cast<size_t>(SizeOf(dtype_));
    widens_ = width != width_;
  }
  // A run of `count` elements from element `offset` of the operand on.
  void StartRun(int64_t offset, int64_t stride, int64_t count) {
    first_ = data_ + offset * Width();
    stride_ = stride;
    if (stride == 0) {
      Fill(first_, std::min(count, kStageElements));
    }
  }
  bool direct() const { return stride_ == 1 && !widens_; }
  // Elements [i, i + count) of the run.
  const std::byte* Get(int64_t i, int64_t count) {
    if (direct()) return first_ + i * Width();
    if (stride_ != 0) Fill(first_ + i * stride_ * Width(), count);
    return buffer_;
  }

 private:
  int64_t Width() const { return static_cast<int64_t>(width_); }
  void Fill(const std::byte* from, int64_t count) {
    if (widens_) {
      Widen(dtype_, count, from, stride_, reinterpret_cast<float*>(buffer_));
    } else {
      Gather(width_, from, stride_, count, buffer_);
    }
  }

  const std::byte* data_ = nullptr;
  const std::byte* first_ = nullptr;
  DType dtype_ = DType::kF32;
  size_t width_ = 0;
  bool widens_ = false;
  int64_t stride_ = 1;
  alignas(64)
      std::byte buffer_[static_cast<size_t>(kStageElements) * kWidestElement];
};

template <size_t... k>
void Run(const Launch& launch, ThreadPool& pool, ElementwiseBody body,
         std::index_sequence<k...>) {
  const TensorView& y = launch.outputs[0];
  const auto width = static_cast<int64_t>(SizeOf(y.dtype()));
  const bool narrows = body.widths[0] != static_cast<size_t>(width);
  const StridedWalk<sizeof...(k)> walk(y.shape(),
                                       {&launch.inputs[k].strides...});
  ParallelRanges(
      pool, y.size(), kChunkElements, [&](int64_t begin, int64_t end) {
        std::array<Stage, sizeof...(k)> stages;
        float wide[kStageElements];  // the result, where it is narrowed
        (stages[k].SetOperand(launch.inputs[k], body.widths[k + 1]), ...);
        walk.Runs(
            begin, end, [&](int64_t index, const auto& offsets, int64_t count) {
              (stages[k].StartRun(offsets[k], count == 1 ? 1 : walk.inner(k),
                                  count),
               ...);
              const bool direct = !narrows && (stages[k].direct() && ...);
              const int64_t block = direct ? count : kStageElements;
              for (int64_t i = 0; i < count; i += block) {
                const int64_t n = std::min(block, count - i);
                const std::byte* operands[] = {stages[k].Get(i, n)...};
                std::byte* to = y.data + (index + i) * width;
                body.run(body.body, n, index + i,
                         narrows ? reinterpret_cast<std::byte*>(wide) : to,
                         operands);
                if (narrows) Narrow(y.dtype(), n, wide, to);
              }
            });
      });
}

template <size_t... k>
void RunBlocksOf(const Launch& launch, ThreadPool& pool, size_t width,
                 BlockBody body, std::index_sequence<k...>) {
  const TensorView& y = launch.outputs[0];
  const StridedWalk<sizeof...(k)> walk(y.shape(),
                                       {&launch.inputs[k].strides...});
  ParallelRanges(
      pool, y.size(), kChunkElements, [&](int64_t begin, int64_t end) {
        std::array<Stage, sizeof...(k)> stages;
        (stages[k].SetOperand(launch.inputs[k], width), ...);
        walk.Runs(begin, end,
                  [&](int64_t index, const auto& offsets, int64_t count) {
                    (stages[k].StartRun(offsets[k],
                                        count == 1 ? 1 : walk.inner(k), count),
                     ...);
                    for (int64_t i = 0; i < count; i += kStageElements) {
                      const int64_t n = std::min(kStageElements, count - i);
                      const std::byte* operands[] = {stages[k].Get(i, n)...};
                      body.run(body.body, n, index + i, operands);
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

void RunBlocks(const Launch& launch, ThreadPool& pool, size_t width,
               BlockBody body) {
  switch (launch.inputs.size()) {
    case 1:
      return RunBlocksOf(launch, pool, width, body,
                         std::make_index_sequence<1>{});
    case 2:
      return RunBlocksOf(launch, pool, width, body,
                         std::make_index_sequence<2>{});
    case 3:
      return RunBlocksOf(launch, pool, width, body,
                         std::make_index_sequence<3>{});
    case 4:
      return RunBlocksOf(launch, pool, width, body,
                         std::make_index_sequence<4>{});
    case 5:
      return RunBlocksOf(launch, pool, width, body,
                         std::make_index_sequence<5>{});
  }
  STOWAGE_CHECK(false);
}

void RunMany(const Launch& launch, ThreadPool& pool, size_t operands,
             size_t width, ManyBody body) {
  const size_t results = launch.outputs.size();
  STOWAGE_CHECK(operands <= kMaxOperands && results <= kMaxOperands);
  const DType dtype = launch.outputs[0].dtype();
  const auto own_width = static_cast<size_t>(SizeOf(dtype));
  const bool widens = width != own_width;
  ParallelRanges(
      pool, launch.outputs[0].size(), kChunkElements,
      [&](int64_t begin, int64_t end) {
        float wide_x[kMaxOperands][kStageElements];
        float wide_y[kMaxOperands][kStageElements];
        const std::byte* x[kMaxOperands] = {};
        std::byte* y[kMaxOperands] = {};
        const int64_t block = widens ? kStageElements : end - begin;
        for (; begin < end; begin += block) {
          const int64_t n = std::min(block, end - begin);
          const int64_t offset = begin * static_cast<int64_t>(own_width);
          for (size_t k = 0; k < operands; ++k) {
            x[k] = launch.inputs[k].data + offset;
            if (!widens) continue;
            Widen(dtype, n, x[k], 1, wide_x[k]);
            x[k] = reinterpret_cast<const std::byte*>(wide_x[k]);
          }
          for (size_t k = 0; k < results; ++k) {
            y[k] = widens ? reinterpret_cast<std::byte*>(wide_y[k])
                          : launch.outputs[k].data + offset;
          }
          body.run(body.body, n, x, y);
          for (size_t k = 0; widens && k < results; ++k) {
            Narrow(dtype, n, wide_y[k], launch.outputs[k].data + offset);
          }
        }
      });
}

}  // namespace stowage::cpu::internal
