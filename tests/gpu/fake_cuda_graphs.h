#ifndef STOWAGE_TESTS_GPU_FAKE_CUDA_GRAPHS_H_
#define STOWAGE_TESTS_GPU_FAKE_CUDA_GRAPHS_H_

// A stand-in for the CUDA runtime's functions about graphs, with the rules that NVIDIA documents:
// it records captured work and the owner of each graph, and fails where a test asks it to. Each
// thread has its own, which knows no graph of another thread.
//
//   FakeCudaGraphs& cuda = FakeCudaGraphs::Get();
//   capture.Begin(cuda.stream());
//   cuda.Work("a");  // is given to the stream
//   auto graph = capture.End();
//   CHECK(cuda.Text(graph->executable) == "a");

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stowage::testing {

class FakeCudaGraphs {
 public:
  struct Graph;
  struct Node {
    std::string name;
    std::vector<Node*> behind;
    std::vector<std::unique_ptr<Graph>> bodies;  // of a branch
  };
  struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    Graph* around = nullptr;  // of a body
  };

  static FakeCudaGraphs& Get();

  cudaStream_t stream();
  /// A kernel is given to the stream: a node behind those that were.
  void Work(const std::string& name);
  /// Work that is enqueued from here on depends on `name` by an edge of another kind than
  /// the default.
  void SetEdge(unsigned char type) { edge_ = type; }

  /// The call of this name fails, the nth from now on.
  void Fail(const std::string& function, int nth);
  int calls(const std::string& function) const;
  void Forget();  // what was counted, and what was left

  /// "a, b<a>, branch{c}{d, e<d>}<b>": nodes in the order in which they were added, the
  /// bodies of a branch, and behind which others they are.
  std::string Text(cudaGraphExec_t executable) const;
  /// Graphs that are no body, and executables.
  size_t live() const { return graphs_.size() + executables_.size(); }
  bool is_capturing() const { return capturing_ != nullptr; }
  /// The edges that the last branch was added by.
  const std::vector<unsigned char>& edges() const { return edges_; }

  // The functions of the runtime.
  cudaError_t Call(const std::string& function);
  cudaError_t Begin(Graph* graph, std::vector<Node*> behind);
  cudaError_t End(cudaGraph_t* graph);
  cudaError_t Info(cudaStreamCaptureStatus* status, cudaGraph_t* graph,
                   const cudaGraphNode_t** last,
                   const cudaGraphEdgeData** edges, size_t* count);
  cudaError_t AddBranch(cudaGraphNode_t* node, cudaGraph_t graph,
                        const cudaGraphNode_t* behind,
                        const cudaGraphEdgeData* edges, size_t count,
                        cudaGraphNodeParams* params);
  cudaError_t NewHandle(unsigned long long* handle, cudaGraph_t graph);
  cudaError_t Instantiate(cudaGraphExec_t* executable, cudaGraph_t graph);
  cudaError_t DestroyGraph(cudaGraph_t graph);
  cudaError_t DestroyExecutable(cudaGraphExec_t executable);

 private:
  std::map<Graph*, std::unique_ptr<Graph>> graphs_;  // that are no bodies
  std::map<void*, std::string> executables_;         // what they were made of
  std::map<std::string, int> calls_, failing_;
  std::map<uint64_t, Graph*> handles_;  // without a branch so far
  uint64_t last_handle_ = 0;
  std::vector<std::vector<cudaGraph_t>> out_;  // CUDA's arrays of bodies
  Graph* capturing_ = nullptr;
  std::vector<Node*> last_;
  std::vector<cudaGraphEdgeData> last_edges_;
  unsigned char edge_ = 0;
  std::vector<unsigned char> edges_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_FAKE_CUDA_GRAPHS_H_
