// linear_cross_entropy and its gradient, by chunks of rows: a chunk's logits lie
// in scratch, become its loss, and for the gradient its dlogits in place, which
// two more products turn into the chunk's dx and its share of dw.
//
// dw's chains go on from chunk to chunk, so gradients are, bit for bit, those of matmul
// and cross_entropy on all rows at once, up to kBlockDepth rows; beyond, matmul's sums
// are cut elsewhere.

#include "cpu/kernels/linear_cross_entropy.h"

#include "cpu/kernel.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/product.h"
#include "cpu/kernels/weight_blocks.h"
#include "runtime/block_matrix.h"

namespace stowage::cpu {
namespace {

// w, of floats or of blocks.
template <typename T>
class Weights {
 public:
  Weights(const Launch& launch, const Work<T>& work)
      : x_(launch.inputs[0].as<const T>()),
        bytes_(launch.inputs[1]),
        attrs_(*launch.attrs),
        rows_(work.vocabulary),
        width_(work.width),
        scratch_(work.strips(launch)) {}

  const T* data() const { return bytes_.as<const T>(); }
  bool in_blocks() const { return attrs_.Int("blocks") != kNoBlocks; }

  // y (m, V) = the m rows of x (C) from `first` on, times w^T.
  void MakeLogits(ThreadPool& pool, int64_t first, int64_t m, T* y) const {
    const T* const x = x_ + first * width_;
    if (in_blocks()) return MultiplyBlocks(pool, m, x, true, y);
    Product<T>(pool, m, rows_, width_, {x, width_, 1}, {data(), 1, width_},
               {y, rows_}, /*accumulate=*/false, scratch_);
  }
  // y (m, C) = x (m, V) w.
  void Multiply(ThreadPool& pool, int64_t m, const T* x, T* y) const {
    if (in_blocks()) return MultiplyBlocks(pool, m, x, false, y);
    Product<T>(pool, m, width_, rows_, {x, rows_, 1}, {data(), width_, 1},
               {y, width_}, /*accumulate=*/false, scratch_);
  }

 private:
  void MultiplyBlocks(ThreadPool& pool, int64_t m, const T* x, bool transposed,
                      T* y) const {
    const BlockMatrix w(bytes_, attrs_);
    QuantizedProduct<T>(pool, m, {x, transposed ? width_ : rows_, 1}, w,
                        transposed, {y, transposed ? rows_ : width_}, scratch_);
  }

  const T* const x_;
  const TensorView& bytes_;
  const Attrs& attrs_;
  const int64_t rows_, width_;
  T* const scratch_;
};

template <typename T, typename Label>
void RunForward(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Work<T> work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                     *launch.attrs);
  RunForwardBy(launch, work, Weights<T>(launch, work), labels, pool);
}

template <typename T, typename Label>
void RunGrad(const Launch& launch, const Label* labels, ThreadPool& pool) {
  const Work<T> work(launch.inputs[0].shape(), launch.inputs[1].shape(),
                     *launch.attrs);
  const T* x = launch.inputs[0].as<const T>();
  const Weights<T> w(launch, work);
  T* dx = launch.outputs[1].as<T>();
  T* dw = launch.outputs.size() > 2 ? launch.outputs[2].as<T>() : nullptr;
  T* dlogits = work.logits(launch);
  const int64_t n = work.vocabulary;
  const int64_t width = work.width;
  RunGradBy(launch, work, w, labels, pool, [&](int64_t first, int64_t count) {
    if (dw != nullptr) {
      Product<T>(pool, n, width, count, {dlogits, 1, n},
                 {x + first * width, width, 1}, {dw, width},
                 /*accumulate=*/first > 0, work.strips(launch));
    }
    w.Multiply(pool, count, dlogits, dx + first * width);
  });
}

StepCode RunLinearCrossEntropy(const Launch& launch,
                               ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto zero, const auto* labels) {
    RunForward<decltype(zero)>(launch, labels, pool);
  });
}
StepCode RunLinearCrossEntropyGrad(const Launch& launch,
                                   ThreadPool& pool) noexcept {
  return WithLabels(launch, [&](auto zero, const auto* labels) {
    RunGrad<decltype(zero)>(launch, labels, pool);
  });
}

Bytes Workspace(const OpArgs& args, std::span<const TensorType>, int threads) {
  return OnFloat(args.type(0).dtype, [&](auto zero) {
    return Work<decltype(zero)>(args.shape(0), args.shape(1), args.attrs)
        .bytes(threads);
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel LinearCrossEntropy = {.run = RunLinearCrossEntropy,
                                                .workspace = Workspace};
constinit const CpuKernel LinearCrossEntropyGrad = {
    .run = RunLinearCrossEntropyGrad, .workspace = Workspace};

}  // namespace kernels
}  // namespace stowage::cpu
