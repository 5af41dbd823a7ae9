#ifndef STOWAGE_TESTS_GPU_ATTENTION_NET_H_
#define STOWAGE_TESTS_GPU_ATTENTION_NET_H_

// Builds graphs of attention and runs them on a fake device with several attention algorithms.
// Tests can then read which algorithm ran, and the autotune cache.
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

/// The names of the attention kernels that use warpgroup matmuls (wgmma).
inline constexpr const char* kForward = "attention, warpgroups";
inline constexpr const char* kGradKeys = "attention grad, keys, warpgroups";
inline constexpr const char* kGradQueries =
    "attention grad, queries, warpgroups";

/// The description of a graph of attention and, optionally, its gradient.
struct Net {
  DType dtype = DType::kBF16;
  int64_t batch = 1, length = 5, heads = 2, depth = 16;
  int64_t sharing = 1;  // query heads that share a key head
  bool causal = true;
  int64_t window = 0;
  bool lengths = false;
  bool packed = false;  // q, k and v are slices of one tensor
  int64_t more = 0;     // unused columns after v in that tensor
  int64_t offset = 0;   // elements ahead of q in its tensor, if not packed
  bool grad = false;
};

/// Returns the graph. Fails the running doctest case if the graph is invalid.
Graph GraphOf(const Net& net);

/// Returns values for the leaves of a graph that GraphOf returned. All key lengths are 3.
Tensors NumbersFor(const Graph& graph);

struct Opened {
  std::unique_ptr<Backend> backend;
  FakeDevice* device = nullptr;
};

inline constexpr gpu::AttentionAlgorithms kTwoWays = {
    gpu::AttentionAlgorithm::kWarps, gpu::AttentionAlgorithm::kWarpgroups};

/// Opens a backend on a fake device. It autotunes over the algorithms `ways` and keeps its autotune
/// cache in `folder`.
Opened Open(const std::string& folder, gpu::AttentionAlgorithms ways = kTwoWays,
            FakeOptions options = {});

/// Binds the graph of `net`, runs it once and returns its outputs.
Result<OutputBytes> Run(const Opened& opened, const Net& net);
/// Like Run, but fails the running doctest case on an error.
OutputBytes Outputs(const Opened& opened, const Net& net = {});

/// Returns whether a captured graph contains the kernel.
bool IsInGraph(const Opened& opened, std::string_view kernel);

/// Returns the name of the attention kernel that ran last, or "" if none ran.
std::string LastAttention(const Opened& opened);

/// Returns the backend's report of what its autotuner measured, or "" if there is no report.
std::string Tried(const Opened& opened);

/// Returns the path of the autotune cache in `folder`, or "" if the folder is empty.
std::string FileIn(const std::string& folder);
/// Returns the number of entries in the autotune cache in `folder`.
int64_t ChoicesIn(const std::string& folder);

/// Returns the params with which an attention kernel is launched.
gpu::AttentionParams ParamsOf(const gpu::KernelCall& call);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_ATTENTION_NET_H_
