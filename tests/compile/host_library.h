#ifndef STOWAGE_TESTS_COMPILE_HOST_LIBRARY_H_
#define STOWAGE_TESTS_COMPILE_HOST_LIBRARY_H_

// C sources, compiled by a compiler of the host and loaded into the test.
//
//   HostLibrary library("mlp", {{"step.h", c.header}, {"step.c", c.source}});
//   auto* step = library.Get<int()>("step_step");

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/plan_memory.h"
#include "tests/support/interpret.h"

namespace stowage::testing {

/// Options by which every generated file is compiled.
inline constexpr const char* kStrictC =
    "-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror";

class HostLibrary {
 public:
  /// Writes the files into a folder of their own and compiles those that end in .c. Aborts,
  /// with the compiler's messages, where that fails.
  HostLibrary(const std::string& name,
              const std::map<std::string, std::string>& files,
              const std::string& flags = "-O1",
              const std::string& compiler = "cc");
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;
  ~HostLibrary();

  template <typename F>
  F* Get(const std::string& name) const {
    return reinterpret_cast<F*>(Find(name));
  }
  const std::string& path() const { return path_; }

 private:
  void* Find(const std::string& name) const;

  std::string path_;
  void* handle_ = nullptr;
};

/// The output of a command; aborts where the command fails.
std::string OutputOf(const std::string& command);

/// A graph, planned for C, and its files, whose functions take the arena.
struct GraphInC {
  Graph graph;
  Plan plan;
  std::map<std::string, std::string> files;
  std::string prefix;

  /// Aborts where the graph cannot be written in C. `simd` is CompileOptions::simd.
  static GraphInC Make(const Graph& graph, const std::string& prefix,
                       PlanOptions options = {}, int simd = 0);
  /// Uses a plan that was made with NeedsOfC(simd).
  static GraphInC Of(const Graph& graph, const Plan& plan,
                     const std::string& prefix,
                     const std::map<std::string, std::string>& contents = {},
                     int simd = 0);
};

/// The source of a graph with its prefix before each name that is local to the file, so that the
/// sources of several graphs can be joined. A joined source compiles in a fraction of the time.
std::string SourceToJoin(const GraphInC& c);

/// Memory of a GraphInC. It is full of NaN before it is written.
class ArenaInC {
 public:
  explicit ArenaInC(const GraphInC& c);

  uint8_t* data() { return data_; }
  /// At their addresses in the arena, or `elsewhere`.
  void Write(const std::string& leaf, const std::vector<double>& elements,
             uint8_t* elsewhere = nullptr);
  std::vector<double> Read(const std::string& name,
                           const uint8_t* elsewhere = nullptr) const;
  /// Bytes of a leaf or an output that owns its bytes.
  uint8_t* At(const std::string& name);
  Bytes SizeOf(const std::string& name) const;

 private:
  const GraphInC& c_;
  std::vector<uint8_t> storage_;
  uint8_t* data_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_COMPILE_HOST_LIBRARY_H_
