// Times convolutions on the CPU, for pytorch_conv_layers.py. Reads one layer per line,
//
//   N C H W O KERNEL STRIDE PADDING GROUPS TRANSPOSED SECONDS
//
// with square kernels, and prints three times in milliseconds: forward, the gradient of x and
// the gradient of w. Each is the minimum over the calls that fit SECONDS; with one thread,
// times are CPU times.
//
//   bazel run -c opt //bench:conv_layers -- [threads]

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// The clock's, or the processor's where there is one thread.
double Seconds(const cpu::ThreadPool& pool) {
  timespec now;
  clock_gettime(
      pool.threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Aligned, of small numbers.
struct Block {
  explicit Block(Bytes bytes) : data(static_cast<size_t>(bytes) + 64) {
    auto* floats = reinterpret_cast<float*>(data.data());
    for (size_t i = 0; i < data.size() / sizeof(float); ++i) {
      floats[i] = 0.01f + 1e-4f * static_cast<float>(i % 977);
    }
    void* at = data.data();
    size_t space = data.size();
    std::align(64, static_cast<size_t>(bytes), at, space);
    begin = static_cast<std::byte*>(at);
  }
  std::vector<std::byte> data;
  std::byte* begin;
};

// The node that `build` makes of two inputs.
double Milliseconds(const Shape& a, const Shape& b, double seconds,
                    const std::function<void(Value, Value)>& build,
                    cpu::ThreadPool& pool) {
  GraphBuilder builder("layer");
  build(builder.Input("a", DType::kF32, a), builder.Input("b", DType::kF32, b));
  const Result<Graph> graph = builder.Finish();
  STOWAGE_CHECK(graph.ok());
  const Node& node = graph->node(0);
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(*graph, node, &storage);
  std::vector<std::unique_ptr<Block>> blocks;
  const auto view = [&](ValueId id) -> TensorView {
    const TensorType& type = graph->value(id).type;
    blocks.push_back(std::make_unique<Block>(type.bytes()));
    return {blocks.back()->begin, type, ContiguousStrides(type.shape)};
  };
  const TensorView inputs[] = {view(node.inputs[0]), view(node.inputs[1])};
  const TensorView outputs[] = {view(node.results[0])};
  const cpu::CpuKernel& kernel = cpu::GetKernel(node.op);
  const Bytes scratch =
      kernel.workspace(args, {&outputs[0].type, 1}, pool.threads());
  const Block workspace(scratch);
  const Launch launch = {
      node.op, 0,       &node.attrs,
      inputs,  outputs, {workspace.begin, static_cast<size_t>(scratch)}};
  double best = 1e9;
  const double begin = Seconds(pool);
  for (int i = 0; i < 3 || Seconds(pool) < begin + seconds; ++i) {
    const double start = Seconds(pool);
    STOWAGE_CHECK(kernel.run(launch, pool) == StepCode::kOk);
    best = std::min(best, Seconds(pool) - start);
  }
  return 1000 * best;
}

void TimeLayer(cpu::ThreadPool& pool, const int64_t (&layer)[10],
               double seconds) {
  const auto [n, c, h, w, o, kernel, stride, padding, groups, transposed] =
      layer;
  const Shape x = {n, c, h, w};
  const ConvOptions options = {
      .stride = stride, .padding = padding, .groups = groups};
  GraphBuilder shapes("shapes");
  const Shape filters = transposed != 0 ? Shape{c, o / groups, kernel, kernel}
                                        : Shape{o, c / groups, kernel, kernel};
  const Value of_x = shapes.Input("x", DType::kF32, x);
  const Value of_w = shapes.Input("w", DType::kF32, filters);
  const ConvTransposeOptions forward = {
      .stride = stride, .padding = padding, .groups = groups};
  const Shape y = transposed != 0 ? ConvTranspose(of_x, of_w, forward).shape()
                                  : Conv(of_x, of_w, options).shape();
  ConvTransposeOptions back = forward;
  back.size = {h, w};
  const Axes kernels = {kernel, kernel};
  const auto conv = [&](Value a, Value b) { Conv(a, b, options); };
  const auto grad = [&](Value a, Value b) {
    ConvWeightGrad(a, b, kernels, options);
  };
  double times[3];
  if (transposed != 0) {
    times[0] = Milliseconds(
        x, filters, seconds,
        [&](Value a, Value b) { ConvTranspose(a, b, forward); }, pool);
    times[1] = Milliseconds(y, filters, seconds, conv, pool);
    times[2] = Milliseconds(y, x, seconds, grad, pool);
  } else {
    times[0] = Milliseconds(x, filters, seconds, conv, pool);
    times[1] = Milliseconds(
        y, filters, seconds,
        [&](Value a, Value b) { ConvTranspose(a, b, back); }, pool);
    times[2] = Milliseconds(x, y, seconds, grad, pool);
  }
  std::printf("%.6f %.6f %.6f\n", times[0], times[1], times[2]);
  std::fflush(stdout);
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) {
  stowage::cpu::ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    int64_t layer[10];
    char* at = line;
    for (int64_t& number : layer) number = std::strtoll(at, &at, 10);
    stowage::TimeLayer(pool, layer, std::strtod(at, &at));
  }
  return 0;
}
