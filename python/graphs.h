#ifndef STOWAGE_PYTHON_GRAPHS_H_
#define STOWAGE_PYTHON_GRAPHS_H_

// Builds graphs from Python, one op at a time. The Python class Value is a handle that keeps its
// builder alive. The Python functions of ops are generated from ir/ops.def (python/make_ops.py).
// They call GraphBuilder.emit.

#include <pybind11/pybind11.h>

#include <string>

#include "base/result.h"
#include "ir/builder.h"

namespace stowage::python {

/// A graph builder that can be used until its graph is finished.
class Builder {
 public:
  explicit Builder(const std::string& name) : builder_(name) {}

  /// Returns the builder of the graph. Raises InvalidArgument if the graph is finished.
  GraphBuilder& Open();
  /// Raises the first error of the builder, if any. Raises InvalidArgument if the graph is
  /// finished.
  void Check();
  Result<Graph> Finish();

  /// Sets the source location of the following ops. If `source` is unknown, which is the default,
  /// the location is the calling line of Python outside of this package.
  void SetSource(SourceLoc source) { source_ = source; }
  SourceLoc source() const { return source_; }

 private:
  GraphBuilder builder_;
  SourceLoc source_ = {};
  bool is_open_ = true;
};

/// Adds the Python classes GraphBuilder and Value to `module`.
void BindGraphs(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_GRAPHS_H_
