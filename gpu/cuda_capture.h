#ifndef STOWAGE_GPU_CUDA_CAPTURE_H_
#define STOWAGE_GPU_CUDA_CAPTURE_H_

// A CUDA graph that is captured from a stream, with branches as conditional nodes of it,
// which CUDA has since 12.8.
//
// A capture is cut where a part of the graph begins or ends: before a branch the capture
// ends, the node is added behind what it has noted, each body is a capture of its own into
// a graph that belongs to the node, and what follows the branch is captured into the graph
// around it again, behind the node. So there is one capture at a time, on one stream.
//
//   CudaCapture capture;
//   capture.Begin(stream);
//   ...
//   STOWAGE_ASSIGN_OR_RETURN(const GraphChoice choice, capture.NewChoice());
//   ...
//   capture.BeginBranch(choice, 2);
//   ...
//   capture.NextBody();
//   ...
//   capture.NextBody();
//   ...
//   STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<CudaGraph> graph, capture.End());

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"

namespace stowage::gpu {

/// A graph that can be launched.
struct CudaGraph {
  /// Of one with branches, whose choices belong to it; else null.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  ~CudaGraph();
};

class CudaCapture {
 public:
  /// Error kUnsupported: CUDA of this build, or of a driver for `driver` (12080: 12.8), is
  /// too old for branches in graphs.
  static Status HasBranches(int driver);

  Status Begin(cudaStream_t stream);
  // As the functions of Device.
  Result<GraphChoice> NewChoice();
  Status BeginBranch(GraphChoice choice, size_t bodies);
  Status NextBody();
  /// Ready to be launched on the stream.
  Result<std::unique_ptr<CudaGraph>> End();

 private:
  // A branch whose bodies are captured.
  struct Branch {
    cudaGraph_t around = nullptr;
    cudaGraphNode_t node = nullptr;
    std::vector<cudaGraph_t> bodies = {};
    size_t body = 0;  // the one that is captured
  };

  // Ends the capture, not the graph.
  Status Cut();
  Status GoOn(cudaGraph_t graph, const cudaGraphNode_t* behind);

  cudaStream_t stream_ = nullptr;
  bool is_capturing_ = false;
  bool has_branches_ = false;
  bool is_lost_ = false;        // the graph: nothing may be done to it
  cudaGraph_t root_ = nullptr;  // of what was cut
  std::vector<Branch> open_;    // the outermost first
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_CAPTURE_H_
