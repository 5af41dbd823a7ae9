#ifndef STOWAGE_GPU_CUDA_CAPTURE_H_
#define STOWAGE_GPU_CUDA_CAPTURE_H_

// A CUDA graph captured from a stream, with branches as conditional nodes (CUDA 12.8).
//
// The capture is split where a part of the graph begins or ends: before a branch the capture
// ends and the conditional node is added after it; each body is captured into a graph of the
// node; the work after the branch is captured into the surrounding graph again, after the
// node. There is one capture at a time, on one stream.
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
  /// The graph that owns the choices of branches; null without branches.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  ~CudaGraph();
};

class CudaCapture {
 public:
  /// Error kUnsupported: the CUDA version of this build or of the driver, `driver` (12080 for
  /// 12.8), is too old for branches in graphs.
  static Status HasBranches(int driver);

  Status Begin(cudaStream_t stream);
  // Like the functions of the same names in Device (gpu/device.h).
  Result<GraphChoice> NewChoice();
  Status BeginBranch(GraphChoice choice, size_t bodies);
  Status NextBody();
  /// Ends the capture and returns the graph, ready to be launched.
  Result<std::unique_ptr<CudaGraph>> End();

 private:
  // A branch whose bodies are being captured.
  struct Branch {
    cudaGraph_t around = nullptr;
    cudaGraphNode_t node = nullptr;
    std::vector<cudaGraph_t> bodies = {};
    size_t body = 0;  // index of the one being captured
  };

  // Ends the capture, not the graph.
  Status Cut();
  Status GoOn(cudaGraph_t graph, const cudaGraphNode_t* behind);

  cudaStream_t stream_ = nullptr;
  bool is_capturing_ = false;
  bool has_branches_ = false;
  bool is_lost_ = false;        // the graph must not be used
  cudaGraph_t root_ = nullptr;  // the graph around all branches
  std::vector<Branch> open_;    // the outermost first
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_CAPTURE_H_
