#ifndef STOWAGE_GPU_CUDA_CAPTURE_H_
#define STOWAGE_GPU_CUDA_CAPTURE_H_

// Captures a CUDA graph from a stream. Branches (gpu/device.h) become conditional nodes, which
// require CUDA 12.8.
//
// The capture is split at the beginning and at the end of each branch body. At a branch, the
// current capture ends, and the conditional node is added after the captured work. Each body is
// captured into a subgraph of the node. The work after the branch is captured into the surrounding
// graph, after the node. There is one capture at a time, on one stream.
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
  /// The graph that owns the conditional nodes, or null if there are no branches.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  ~CudaGraph();
};

class CudaCapture {
 public:
  /// Returns kUnsupported if the CUDA version of this build or of the driver is too old for
  /// branches in graphs. `driver` is the driver's version, such as 12080 for CUDA 12.8.
  static Status HasBranches(int driver);

  Status Begin(cudaStream_t stream);
  // See the functions of the same names in Device (gpu/device.h).
  Result<GraphChoice> NewChoice();
  Status BeginBranch(GraphChoice choice, size_t bodies);
  Status NextBody();
  /// Ends the capture and returns the graph, which is ready to be launched.
  Result<std::unique_ptr<CudaGraph>> End();

 private:
  // A branch whose bodies are being captured.
  struct Branch {
    cudaGraph_t around = nullptr;
    cudaGraphNode_t node = nullptr;
    std::vector<cudaGraph_t> bodies = {};
    size_t body = 0;  // index of the body being captured
  };

  // Cut ends the capture of the stream. GoOn begins a capture into `graph`, after node `behind`, or
  // at the start if `behind` is null.
  Status Cut();
  Status GoOn(cudaGraph_t graph, const cudaGraphNode_t* behind);

  cudaStream_t stream_ = nullptr;
  bool is_capturing_ = false;
  bool has_branches_ = false;
  bool is_lost_ = false;        // if true, the graph must not be used
  cudaGraph_t root_ = nullptr;  // the outermost graph
  std::vector<Branch> open_;    // outermost first
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_CAPTURE_H_
