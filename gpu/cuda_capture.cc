#include "gpu/cuda_capture.h"

#include <utility>

#include "gpu/cuda_calls.h"
#include "gpu/device_checks.h"

namespace stowage::gpu {
namespace {

// Calls of other threads do not invalidate the capture.
constexpr cudaStreamCaptureMode kMode = cudaStreamCaptureModeThreadLocal;

}  // namespace

CudaGraph::~CudaGraph() {
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  if (graph != nullptr) cudaGraphDestroy(graph);
}

Status CudaCapture::HasBranches(int driver) {
  return CheckBranches(driver, CUDART_VERSION);
}

Status CudaCapture::Begin(cudaStream_t stream) {
  stream_ = stream;
  is_lost_ = has_branches_ = false;
  STOWAGE_RETURN_IF_ERROR(
      CheckCuda(cudaStreamBeginCapture(stream, kMode), "beginning a capture"));
  is_capturing_ = true;
  return {};
}

Status CudaCapture::Cut() {
  is_capturing_ = false;
  cudaGraph_t graph = nullptr;
  const Status ended =
      CheckCuda(cudaStreamEndCapture(stream_, &graph), "ending a capture");
  // CUDA has destroyed the graph then, which a branch may still hold: drivers crash when
  // the graph around it is destroyed as well (NVIDIA's bug 6805256). So that one is left.
  if (!ended.ok()) is_lost_ = true;
  if (open_.empty()) root_ = graph;
  return ended;
}

Result<std::unique_ptr<CudaGraph>> CudaCapture::End() {
  const Status cut = is_capturing_ ? Cut() : Status();
  auto captured = std::make_unique<CudaGraph>();
  captured->graph = std::exchange(root_, nullptr);
  const bool is_whole = std::exchange(open_, {}).empty() && cut.ok();
  if (is_lost_) captured->graph = nullptr;
  if (!cut.ok()) return cut.error();
  if (!is_whole || captured->graph == nullptr) {
    return Error{ErrorCode::kDevice, "[gpu] the capture has failed before"};
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckCuda(cudaGraphInstantiate(&captured->executable, captured->graph, 0),
                "making a graph"));
  if (!has_branches_) {
    cudaGraphDestroy(std::exchange(captured->graph, nullptr));
  }
  STOWAGE_RETURN_IF_ERROR(CheckCuda(
      cudaGraphUpload(captured->executable, stream_), "uploading a graph"));
  return captured;
}

#if CUDART_VERSION >= 12080

namespace {

// The graph that is being captured, and its last nodes.
struct CapturedPart {
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> last = {};
  std::vector<cudaGraphEdgeData> edges = {};  // from these to what follows
};

Result<CapturedPart> PartOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CapturedPart part;
  const cudaGraphNode_t* last = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaStreamGetCaptureInfo(
      stream, &status, nullptr, &part.graph, &last, &edges, &count);
#else
  const cudaError_t error = cudaStreamGetCaptureInfo_v3(
      stream, &status, nullptr, &part.graph, &last, &edges, &count);
#endif
  STOWAGE_RETURN_IF_ERROR(CheckCuda(error, "asking for a capture's nodes"));
  if (status != cudaStreamCaptureStatusActive) {
    return Error{ErrorCode::kDevice, "[gpu] the capture has failed before"};
  }
  part.last.assign(last, last + count);
  // With ordinary edges only there may be no edge data.
  if (edges != nullptr) part.edges.assign(edges, edges + count);
  return part;
}

}  // namespace

Status CudaCapture::GoOn(cudaGraph_t graph, const cudaGraphNode_t* behind) {
  STOWAGE_RETURN_IF_ERROR(
      CheckCuda(cudaStreamBeginCaptureToGraph(stream_, graph, behind, nullptr,
                                              behind == nullptr ? 0 : 1, kMode),
                "beginning a part of a capture"));
  is_capturing_ = true;
  return {};
}

Result<GraphChoice> CudaCapture::NewChoice() {
  STOWAGE_ASSIGN_OR_RETURN(const CapturedPart part, PartOf(stream_));
  cudaGraphConditionalHandle handle = 0;
  STOWAGE_RETURN_IF_ERROR(
      CheckCuda(cudaGraphConditionalHandleCreate(&handle, part.graph, 0, 0),
                "making the choice of a branch"));
  return GraphChoice{handle};
}

Status CudaCapture::BeginBranch(GraphChoice choice, size_t bodies) {
  STOWAGE_ASSIGN_OR_RETURN(const CapturedPart part, PartOf(stream_));
  STOWAGE_RETURN_IF_ERROR(Cut());
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = choice.handle;
  params.conditional.type = cudaGraphCondTypeSwitch;
  params.conditional.size = static_cast<unsigned>(bodies);
  const cudaGraphEdgeData* const edges =
      part.edges.empty() ? nullptr : part.edges.data();
  Branch branch = {.around = part.graph};
#if CUDART_VERSION >= 13000
  const cudaError_t error =
      cudaGraphAddNode(&branch.node, part.graph, part.last.data(), edges,
                       part.last.size(), &params);
#else
  const cudaError_t error =
      cudaGraphAddNode_v2(&branch.node, part.graph, part.last.data(), edges,
                          part.last.size(), &params);
#endif
  STOWAGE_RETURN_IF_ERROR(CheckCuda(error, "adding a branch to a graph"));
  has_branches_ = true;
  branch.bodies.assign(params.conditional.phGraph_out,
                       params.conditional.phGraph_out + bodies);
  open_.push_back(std::move(branch));
  return GoOn(open_.back().bodies[0], nullptr);
}

Status CudaCapture::NextBody() {
  STOWAGE_RETURN_IF_ERROR(Cut());
  Branch& branch = open_.back();
  if (++branch.body < branch.bodies.size()) {
    return GoOn(branch.bodies[branch.body], nullptr);
  }
  const Branch done = std::move(branch);
  open_.pop_back();
  return GoOn(done.around, &done.node);
}

#else

// Whoever asks has asked HasBranches before.
Result<GraphChoice> CudaCapture::NewChoice() {
  return HasBranches(CUDART_VERSION).error();
}
Status CudaCapture::BeginBranch(GraphChoice, size_t) {
  return HasBranches(CUDART_VERSION);
}
Status CudaCapture::NextBody() { return HasBranches(CUDART_VERSION); }

#endif

}  // namespace stowage::gpu
