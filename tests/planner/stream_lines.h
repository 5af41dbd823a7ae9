#ifndef STOWAGE_TESTS_PLANNER_STREAM_LINES_H_
#define STOWAGE_TESTS_PLANNER_STREAM_LINES_H_

// The streams of small graphs of loops and branches as lines of text, to compare with
// what is worked out by hand.
//
//   CHECK(StreamText(graph) == Text({"+x", "+y", "y = tanh x", "-y", "-x"}));

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

using Lines = std::vector<std::string>;

/// Inputs: four f32, and a condition.
Value Input(GraphBuilder& g, const char* name);
Value Flag(GraphBuilder& g, const char* name);

/// The stream, a word or two an event: "+x" and "-x" for what is born and dies, results
/// and operands of launches, "{" and "}" around bodies; "x^place" where a value of a body
/// lies in a place outside of it.
Lines StreamOf(const Graph& graph);

/// One event a line, so that a difference shows.
std::string StreamText(const Graph& graph);
std::string Text(const Lines& lines);

}  // namespace stowage

#endif  // STOWAGE_TESTS_PLANNER_STREAM_LINES_H_
