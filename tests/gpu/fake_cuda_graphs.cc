#include "tests/gpu/fake_cuda_graphs.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::testing {
namespace {

using Graph = FakeCudaGraphs::Graph;
using Node = FakeCudaGraphs::Node;

Graph* Of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
cudaGraph_t Of(Graph* graph) { return reinterpret_cast<cudaGraph_t>(graph); }

// Whether `graph` is `around`, or a body somewhere in it.
bool IsWithin(const Graph* graph, const Graph* around) {
  while (graph != nullptr && graph != around) graph = graph->around;
  return graph != nullptr;
}

std::string TextOf(const Graph& graph) {
  std::string text;
  for (const auto& node : graph.nodes) {
    text += StrCat(text.empty() ? "" : ", ", node->name);
    for (const auto& body : node->bodies)
      text += StrCat("{", TextOf(*body), "}");
    for (const Node* before : node->behind)
      text += StrCat("<", before->name, ">");
  }
  return text;
}

}  // namespace

FakeCudaGraphs& FakeCudaGraphs::Get() {
  static thread_local FakeCudaGraphs cuda;
  return cuda;
}

cudaStream_t FakeCudaGraphs::stream() {
  return reinterpret_cast<cudaStream_t>(this);
}

void FakeCudaGraphs::Work(const std::string& name) {
  STOWAGE_CHECK(capturing_ != nullptr);
  capturing_->nodes.push_back(std::make_unique<Node>());
  Node& node = *capturing_->nodes.back();
  node.name = name;
  node.behind = last_;
  last_ = {&node};
  last_edges_.assign(edge_ == 0 ? 0 : 1, cudaGraphEdgeData{});
  if (edge_ != 0) last_edges_[0].type = edge_;
}

void FakeCudaGraphs::Fail(const std::string& function, int nth) {
  failing_[function] = nth;
}

int FakeCudaGraphs::calls(const std::string& function) const {
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

void FakeCudaGraphs::Forget() {
  graphs_.clear();
  executables_.clear();
  calls_.clear();
  failing_.clear();
  handles_.clear();
  edge_ = 0;
}

std::string FakeCudaGraphs::Text(cudaGraphExec_t executable) const {
  return executables_.at(executable);
}

cudaError_t FakeCudaGraphs::Call(const std::string& function) {
  ++calls_[function];
  const auto failing = failing_.find(function);
  if (failing == failing_.end() || --failing->second > 0) return cudaSuccess;
  failing_.erase(failing);
  return cudaErrorUnknown;
}

cudaError_t FakeCudaGraphs::Begin(Graph* graph, std::vector<Node*> behind) {
  STOWAGE_CHECK(capturing_ == nullptr);
  if (graph == nullptr) {
    auto made = std::make_unique<Graph>();
    graph = made.get();
    graphs_[graph] = std::move(made);
  }
  for (const Node* node : behind) {
    STOWAGE_CHECK(std::ranges::any_of(
        graph->nodes, [&](const auto& own) { return own.get() == node; }));
  }
  capturing_ = graph;
  last_ = std::move(behind);
  last_edges_.clear();
  return cudaSuccess;
}

// One that fails destroys the graph. That of a body is then gone from under its node, so
// that what is around it may not be touched.
cudaError_t FakeCudaGraphs::End(cudaGraph_t* graph) {
  Graph* const captured = std::exchange(capturing_, nullptr);
  STOWAGE_CHECK(captured != nullptr);
  *graph = nullptr;
  if (const cudaError_t error = Call("EndCapture"); error != cudaSuccess) {
    if (captured->around == nullptr) graphs_.erase(captured);
    return error;
  }
  *graph = Of(captured);
  return cudaSuccess;
}

cudaError_t FakeCudaGraphs::Info(cudaStreamCaptureStatus* status,
                                 cudaGraph_t* graph,
                                 const cudaGraphNode_t** last,
                                 const cudaGraphEdgeData** edges,
                                 size_t* count) {
  *status = capturing_ == nullptr ? cudaStreamCaptureStatusNone
                                  : cudaStreamCaptureStatusActive;
  *graph = Of(capturing_);
  *last = reinterpret_cast<const cudaGraphNode_t*>(last_.data());
  *edges = last_edges_.empty() ? nullptr : last_edges_.data();
  *count = last_.size();
  return cudaSuccess;
}

cudaError_t FakeCudaGraphs::NewHandle(unsigned long long* handle,
                                      cudaGraph_t graph) {
  *handle = ++last_handle_;
  handles_[*handle] = Of(graph);
  return cudaSuccess;
}

cudaError_t FakeCudaGraphs::AddBranch(cudaGraphNode_t* node, cudaGraph_t graph,
                                      const cudaGraphNode_t* behind,
                                      const cudaGraphEdgeData* edges,
                                      size_t count,
                                      cudaGraphNodeParams* params) {
  Graph* const to = Of(graph);
  const auto& branch = params->conditional;
  STOWAGE_CHECK(capturing_ == nullptr);
  STOWAGE_CHECK(params->type == cudaGraphNodeTypeConditional);
  STOWAGE_CHECK(branch.type == cudaGraphCondTypeSwitch && branch.size > 0);
  // A handle is for one node, in its graph or one within.
  STOWAGE_CHECK(IsWithin(to, handles_.at(branch.handle)));
  to->nodes.push_back(std::make_unique<Node>());
  Node& made = *to->nodes.back();
  made.name = "branch";
  out_.emplace_back();
  edges_.clear();
  for (size_t i = 0; i < count; ++i) {
    made.behind.push_back(reinterpret_cast<Node*>(behind[i]));
    edges_.push_back(edges == nullptr ? 0 : edges[i].type);
  }
  for (unsigned i = 0; i < branch.size; ++i) {
    made.bodies.push_back(std::make_unique<Graph>());
    made.bodies.back()->around = to;
    out_.back().push_back(Of(made.bodies.back().get()));
  }
  handles_.erase(branch.handle);
  params->conditional.phGraph_out = out_.back().data();
  *node = reinterpret_cast<cudaGraphNode_t>(&made);
  return cudaSuccess;
}

cudaError_t FakeCudaGraphs::Instantiate(cudaGraphExec_t* executable,
                                        cudaGraph_t graph) {
  STOWAGE_CHECK(graphs_.contains(Of(graph)));
  *executable = reinterpret_cast<cudaGraphExec_t>(new char);
  executables_[*executable] = TextOf(*Of(graph));
  return cudaSuccess;
}

cudaError_t FakeCudaGraphs::DestroyGraph(cudaGraph_t graph) {
  STOWAGE_CHECK(graphs_.erase(Of(graph)) == 1);
  return cudaSuccess;
}

cudaError_t FakeCudaGraphs::DestroyExecutable(cudaGraphExec_t executable) {
  STOWAGE_CHECK(executables_.erase(executable) == 1);
  delete reinterpret_cast<char*>(executable);
  return cudaSuccess;
}

// --- The functions of the runtime that gpu/cuda_capture.cc calls ---------------

namespace {

FakeCudaGraphs& Cuda() { return FakeCudaGraphs::Get(); }

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  const cudaError_t error = Cuda().Call("BeginCapture");
  return error != cudaSuccess ? error : Cuda().Begin(nullptr, {});
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t graph,
                                          const cudaGraphNode_t* behind,
                                          const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode) {
  const cudaError_t error = Cuda().Call("BeginCaptureToGraph");
  if (error != cudaSuccess) return error;
  auto* const nodes = reinterpret_cast<Node* const*>(behind);
  return Cuda().Begin(Of(graph), {nodes, nodes + count});
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  return Cuda().End(graph);
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(
#else
cudaError_t cudaStreamGetCaptureInfo_v3(
#endif
    cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long*,
    cudaGraph_t* graph, const cudaGraphNode_t** last,
    const cudaGraphEdgeData** edges, size_t* count) {
  const cudaError_t error = Cuda().Call("GetCaptureInfo");
  if (error != cudaSuccess) return error;
  return Cuda().Info(status, graph, last, edges, count);
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                             cudaGraph_t graph, unsigned,
                                             unsigned) {
  const cudaError_t error = Cuda().Call("HandleCreate");
  return error != cudaSuccess ? error : Cuda().NewHandle(handle, graph);
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddNode(
#else
cudaError_t cudaGraphAddNode_v2(
#endif
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* behind,
    const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* params) {
  const cudaError_t error = Cuda().Call("AddNode");
  if (error != cudaSuccess) return error;
  return Cuda().AddBranch(node, graph, behind, edges, count, params);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  const cudaError_t error = Cuda().Call("Instantiate");
  return error != cudaSuccess ? error : Cuda().Instantiate(executable, graph);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return Cuda().Call("Upload");
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Cuda().DestroyGraph(graph);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return Cuda().DestroyExecutable(executable);
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "it was told to fail"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorUnknown"; }

}  // extern "C"

}  // namespace stowage::testing
