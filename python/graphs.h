#ifndef STOWAGE_PYTHON_GRAPHS_H_
#define STOWAGE_PYTHON_GRAPHS_H_

// Graphs built op by op in Python. Values are handles that keep their builder alive. The
// functions of ops are generated from ir/ops.def (python/make_ops.py) and call Emit.

#include <pybind11/pybind11.h>

#include <string>

#include "base/result.h"
#include "ir/builder.h"

namespace stowage::python {

/// A builder, until its graph is finished.
class Builder {
 public:
  explicit Builder(const std::string& name) : builder_(name) {}

  /// Raises InvalidArgument if the graph is finished.
  GraphBuilder& Open();
  /// Raises the first error of the builder, if any.
  void Check();
  Result<Graph> Finish();

  /// The source of what follows, instead of the calling line; unknown: the calling line again.
  void SetSource(SourceLoc source) { source_ = source; }
  SourceLoc source() const { return source_; }

 private:
  GraphBuilder builder_;
  SourceLoc source_ = {};
  bool is_open_ = true;
};

/// Adds the classes GraphBuilder and Value.
void BindGraphs(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_GRAPHS_H_
