#ifndef STOWAGE_TESTS_COMPILE_HOST_LIBRARY_H_
#define STOWAGE_TESTS_COMPILE_HOST_LIBRARY_H_

// Compiles C sources with a compiler of the host, and loads them into the test.
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

/// The compiler options for all generated files.
inline constexpr const char* kStrictC =
    "-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror";

class HostLibrary {
 public:
  /// Writes the files into a new folder and compiles the files that end in .c. Prints the
  /// compiler's messages and aborts if that fails.
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

/// Returns the output of a command. Aborts if the command fails.
std::string OutputOf(const std::string& command);

/// A graph, its plan for C, and the generated files, whose functions have the arena as an argument.
struct GraphInC {
  Graph graph;
  Plan plan;
  std::map<std::string, std::string> files;
  std::string prefix;

  /// Plans and compiles `graph` to C. Aborts if that fails. `simd` is CompileOptions::simd.
  static GraphInC Make(const Graph& graph, const std::string& prefix,
                       PlanOptions options = {}, int simd = 0);
  /// Compiles `graph` to C with an existing plan. Requires that the plan is for NeedsOfC(simd).
  static GraphInC Of(const Graph& graph, const Plan& plan,
                     const std::string& prefix,
                     const std::map<std::string, std::string>& contents = {},
                     int simd = 0);
};

/// Returns the source of a graph, with its prefix added to every file-local name. The sources of
/// several graphs can then be concatenated, and the result compiles in a fraction of the time.
std::string SourceToJoin(const GraphInC& c);

/// The arena of a GraphInC. Its bytes are initially 0xFF, which is NaN in every float type.
class ArenaInC {
 public:
  explicit ArenaInC(const GraphInC& c);

  uint8_t* data() { return data_; }
  /// Writes and reads elements at their address in the arena, or at `elsewhere` if it is not null.
  void Write(const std::string& leaf, const std::vector<double>& elements,
             uint8_t* elsewhere = nullptr);
  std::vector<double> Read(const std::string& name,
                           const uint8_t* elsewhere = nullptr) const;
  /// Returns the address of a leaf or an output.
  uint8_t* At(const std::string& name);
  Bytes SizeOf(const std::string& name) const;

 private:
  const GraphInC& c_;
  std::vector<uint8_t> storage_;
  uint8_t* data_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_COMPILE_HOST_LIBRARY_H_
