#ifndef STOWAGE_TESTS_GPU_FAKE_CUDA_GRAPHS_H_
#define STOWAGE_TESTS_GPU_FAKE_CUDA_GRAPHS_H_

// Fakes the graph functions of the CUDA runtime, under the rules that NVIDIA documents. The fake
// records captured work and tracks which graphs are alive, and it fails calls on request. Each
// thread has a separate instance, which does not know the graphs of other threads.
//
//   FakeCudaGraphs& cuda = FakeCudaGraphs::Get();
//   capture.Begin(cuda.stream());
//   cuda.Work("a");  // launches a kernel on the stream
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
    std::vector<Node*> behind;                   // the dependencies
    std::vector<std::unique_ptr<Graph>> bodies;  // of a conditional node
  };
  struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    Graph* around = nullptr;  // the parent graph, if this is a body
  };

  /// Returns the instance of this thread.
  static FakeCudaGraphs& Get();

  cudaStream_t stream();
  /// Launches a kernel on the captured stream. Adds a node that depends on the last work of the
  /// stream.
  void Work(const std::string& name);
  /// Sets the type of the edge by which later work depends on a node that Work adds. 0 is CUDA's
  /// default type.
  void SetEdge(unsigned char type) { edge_ = type; }

  /// Makes the nth call of this function, counted from now, fail.
  void Fail(const std::string& function, int nth);
  int calls(const std::string& function) const;
  void Forget();  // resets counts, pending failures and live graphs

  /// Returns the nodes in the order in which they were added, for example
  /// "a, b<a>, branch{c}{d, e<d>}<b>". Braces contain the bodies of a conditional node, and angle
  /// brackets contain the nodes that a node depends on.
  std::string Text(cudaGraphExec_t executable) const;
  /// Returns the number of live graphs, except bodies, and executables.
  size_t live() const { return graphs_.size() + executables_.size(); }
  bool is_capturing() const { return capturing_ != nullptr; }
  /// Returns the types of the edges with which the last conditional node was added.
  const std::vector<unsigned char>& edges() const { return edges_; }

  // Implementations of the runtime's functions.
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
  std::map<Graph*, std::unique_ptr<Graph>> graphs_;  // all except bodies
  std::map<void*, std::string> executables_;         // as Text returns them
  std::map<std::string, int> calls_, failing_;
  std::map<uint64_t, Graph*> handles_;  // conditional handles not yet used
  uint64_t last_handle_ = 0;
  std::vector<std::vector<cudaGraph_t>> out_;  // arrays for phGraph_out
  Graph* capturing_ = nullptr;
  std::vector<Node*> last_;
  std::vector<cudaGraphEdgeData> last_edges_;
  unsigned char edge_ = 0;
  std::vector<unsigned char> edges_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_FAKE_CUDA_GRAPHS_H_
