#ifndef STOWAGE_TESTS_GPU_ATTENTION_NET_H_
#define STOWAGE_TESTS_GPU_ATTENTION_NET_H_

// A graph of attention, and its run on a fake device that has several algorithms for it: the
// algorithm that ran, and the autotune cache.
//
//   const Opened opened = Open(EmptyFolder("faster"));
//   opened.device->SetSeconds(kForward, 0.5e-3);
//   Outputs(opened, {.length = 6, .grad = true});
//   CHECK(IsInGraph(opened, kForward));

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/queue.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "runtime/backend.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/op_check.h"
#include "tests/support/interpret.h"

namespace stowage::testing {

/// Kernels that use matmuls of warpgroups.
inline constexpr const char* kForward = "attention, warpgroups";
inline constexpr const char* kGradKeys = "attention grad, keys, warpgroups";
inline constexpr const char* kGradQueries =
    "attention grad, queries, warpgroups";

/// A graph of attention, and of its gradient.
struct Net {
  DType dtype = DType::kBF16;
  int64_t batch = 1, length = 5, heads = 2, depth = 16;
  int64_t sharing = 1;  // heads of queries that share one of keys
  bool causal = true;
  int64_t window = 0;
  bool lengths = false;
  bool packed = false;  // q, k and v are slices of one tensor
  int64_t more = 0;     // columns that it has behind them
  int64_t offset = 0;   // of q in a longer tensor, in elements
  bool grad = false;
};

Graph GraphOf(const Net& net);

/// Values of the leaves of such a graph; key lengths are 3.
Tensors NumbersFor(const Graph& graph);

struct Opened {
  std::unique_ptr<Backend> backend;
  FakeDevice* device = nullptr;
};

inline constexpr gpu::AttentionAlgorithms kTwoWays = {
    gpu::AttentionAlgorithm::kWarps, gpu::AttentionAlgorithm::kWarpgroups};

/// A backend that chooses among these algorithms and keeps its choices in the folder.
Opened Open(const std::string& folder, gpu::AttentionAlgorithms ways = kTwoWays,
            FakeOptions options = {});

/// Binds the graph and runs it once.
Result<OutputBytes> Run(const Opened& opened, const Net& net);
OutputBytes Outputs(const Opened& opened, const Net& net = {});

/// Whether the graphs that the device was given hold the kernel.
bool IsInGraph(const Opened& opened, std::string_view kernel);

/// The kernel of attention that ran last.
std::string LastAttention(const Opened& opened);

/// The backend's report of its trials, or empty.
std::string Tried(const Opened& opened);

/// The autotune cache's file in the folder, or empty.
std::string FileIn(const std::string& folder);
int64_t ChoicesIn(const std::string& folder);

/// The params of a captured kernel of attention.
gpu::AttentionParams ParamsOf(const gpu::KernelCall& call);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_ATTENTION_NET_H_
