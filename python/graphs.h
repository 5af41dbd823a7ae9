#ifndef STOWAGE_PYTHON_GRAPHS_H_
#define STOWAGE_PYTHON_GRAPHS_H_

// Builds graphs op by op from Python. Values are handles that keep their builder alive. The
// functions of ops are generated from ir/ops.def (python/make_ops.py) and call Emit.

#include <pybind11/pybind11.h>

#include <string>

#include "base/result.h"
#include "ir/builder.h"

namespace stowage::python {

/// A graph builder that can be used until its graph is finished.
class Builder {
 public:
  explicit Builder(const std::string& name) : builder_(name) {}

  /// Returns the builder. Raises InvalidArgument if the graph is finished.
  GraphBuilder& Open();
  /// Raises the first error of the builder, if any.
  void Check();
  Result<Graph> Finish();

  /// Sets the source location of the following ops. If it is unknown, the calling Python line is
  /// used, which is the default.
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
