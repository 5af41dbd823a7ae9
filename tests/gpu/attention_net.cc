#include "tests/gpu/attention_net.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "gpu/gpu_backend.h"
#include "ir/builder.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;

}  // namespace

Graph GraphOf(const Net& net) {
  GraphBuilder g("attention");
  const int64_t key_heads = net.heads / net.sharing;
  const Shape q_shape{net.batch, net.length, net.heads, net.depth};
  const Shape k_shape{net.batch, net.length, key_heads, net.depth};
  const int64_t q_width = net.heads * net.depth;
  const int64_t k_width = key_heads * net.depth;
  std::vector<Value> qkv;
  if (net.packed) {
    const int64_t width = q_width + 2 * k_width;
    const Value x =
        g.Input("x", net.dtype, {net.batch, net.length, width + net.more});
    qkv = Split(Slice(x, -1, 0, width), -1, {q_width, k_width, k_width});
    qkv[0] = Reshape(qkv[0], q_shape);
    for (size_t i : {1, 2}) qkv[i] = Reshape(qkv[i], k_shape);
  } else {
    const int64_t n = q_shape.num_elements();
    const Value x = g.Input("x", net.dtype, {net.offset + n});
    const Value q = Slice(x, 0, net.offset, net.offset + n);
    qkv = {Reshape(q, q_shape), g.Input("k", net.dtype, k_shape),
           g.Input("v", net.dtype, k_shape)};
  }
  AttentionOptions options = {
      .scale = 0.25, .causal = net.causal, .window = net.window};
  std::vector<Value> operands = qkv;
  if (net.lengths) {
    options.key_lengths = g.Input("lengths", DType::kI32, {net.batch});
    operands.push_back(options.key_lengths);
  }
  const std::vector<Value> forward = g.Emit(OpKind::kAttention, operands,
                                            {{"scale", 0.25},
                                             {"causal", int64_t{net.causal}},
                                             {"window", net.window}});
  g.Output("o", forward[0]);
  g.Output("log_sum_exp", forward[1]);
  if (net.grad) {
    const AttentionGrads grads =
        AttentionGrad(qkv[0], qkv[1], qkv[2], forward[0], forward[1],
                      g.Input("d_o", net.dtype, q_shape), options);
    g.Output("dq", grads.dq);
    g.Output("dk", grads.dk);
    g.Output("dv", grads.dv);
  }
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

Tensors NumbersFor(const Graph& graph) {
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& elements = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      elements.push_back(value.type.dtype == DType::kI32
                             ? 3
                             : static_cast<double>(i * 29 % 17 - 8) / 8);
    }
  }
  return leaves;
}

Opened Open(const std::string& folder, gpu::AttentionAlgorithms ways,
            FakeOptions options) {
  options.blocks = 2;  // the arena, and that of a trial
  options.backend.attention = ways;
  options.backend.algorithm_folder = folder;
  Opened opened;
  opened.backend = MakeFakeBackend(options, &opened.device);
  return opened;
}

Result<OutputBytes> Run(const Opened& opened, const Net& net) {
  const Graph graph = GraphOf(net);
  return RunOnce(graph, NumbersFor(graph), *opened.backend);
}

OutputBytes Outputs(const Opened& opened, const Net& net) {
  auto run = Run(opened, net);
  REQUIRE_MESSAGE(run.ok(), run.error().message);
  return *std::move(run);
}

bool IsInGraph(const Opened& opened, std::string_view kernel) {
  return std::ranges::any_of(
      opened.device->captured(),
      [&](const CapturedKernel& captured) { return captured.name == kernel; });
}

std::string LastAttention(const Opened& opened) {
  std::string last;
  for (const std::string& kernel : opened.device->executed()) {
    if (kernel.starts_with("attention")) last = kernel;
  }
  return last;
}

std::string Tried(const Opened& opened) {
  const std::string all = opened.backend->description();
  const size_t at = all.find(gpu::kAttentionTried);
  return at == std::string::npos ? "" : all.substr(at);
}

std::string FileIn(const std::string& folder) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    CHECK(found.empty());
    found = entry.path().string();
  }
  return found;
}

int64_t ChoicesIn(const std::string& folder) {
  const std::string text = ReadAll(FileIn(folder));
  return std::count(text.begin(), text.end(), '\n') -
         1;  // the first is a title
}

// Kernels that load by bulk copies have tensor maps before them.
gpu::AttentionParams ParamsOf(const gpu::KernelCall& call) {
  gpu::AttentionParams params;
  REQUIRE(call.params_bytes >= sizeof(params));
  std::memcpy(&params,
              static_cast<const std::byte*>(call.params) + call.params_bytes -
                  sizeof(params),
              sizeof(params));
  return params;
}

}  // namespace stowage::testing
