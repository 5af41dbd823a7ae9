#include "gpu/cuda_capture.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/gpu/fake_cuda_graphs.h"

namespace stowage::gpu {
namespace {

using testing::FakeCudaGraphs;

FakeCudaGraphs& Cuda() { return FakeCudaGraphs::Get(); }

TEST_CASE("a capture without branches is its executable and nothing else") {
  Cuda().Forget();
  CudaCapture capture;
  for (int again = 0; again < 2; ++again) {
    REQUIRE(capture.Begin(Cuda().stream()).ok());
    Cuda().Work("a");
    Cuda().Work("b");
    Result<std::unique_ptr<CudaGraph>> graph = capture.End();
    REQUIRE(graph.ok());
    CHECK(Cuda().Text((*graph)->executable) == "a, b<a>");
    CHECK(Cuda().live() == 1);
  }
  CHECK(Cuda().live() == 0);
}

#if CUDART_VERSION >= 12080

// a, a branch of c and of one in d whose bodies are e and nothing, and f behind it, b and g.
Status Give(CudaCapture& capture) {
  Cuda().Work("a");
  STOWAGE_ASSIGN_OR_RETURN(const GraphChoice outer, capture.NewChoice());
  Cuda().Work("b");
  STOWAGE_RETURN_IF_ERROR(capture.BeginBranch(outer, 2));
  Cuda().Work("c");
  STOWAGE_RETURN_IF_ERROR(capture.NextBody());
  STOWAGE_ASSIGN_OR_RETURN(const GraphChoice inner, capture.NewChoice());
  Cuda().Work("d");
  STOWAGE_RETURN_IF_ERROR(capture.BeginBranch(inner, 2));
  Cuda().Work("e");
  STOWAGE_RETURN_IF_ERROR(capture.NextBody());
  STOWAGE_RETURN_IF_ERROR(capture.NextBody());
  Cuda().Work("f");
  STOWAGE_RETURN_IF_ERROR(capture.NextBody());
  Cuda().Work("g");
  return {};
}

// What came of it; the first error.
Result<std::unique_ptr<CudaGraph>> Capture(CudaCapture& capture) {
  STOWAGE_RETURN_IF_ERROR(capture.Begin(Cuda().stream()));
  const Status given = Give(capture);
  auto ended = capture.End();
  if (!given.ok()) return given.error();
  return ended;
}

TEST_CASE("branches are nodes, and what follows one is behind it") {
  Cuda().Forget();
  CudaCapture capture;
  for (int again = 0; again < 2; ++again) {
    Result<std::unique_ptr<CudaGraph>> graph = Capture(capture);
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    CHECK(Cuda().Text((*graph)->executable) ==
          "a, b<a>, branch{c}{d, branch{e}{}<d>, f<branch>}<b>, g<branch>");
    // The choices in it belong to the graph.
    CHECK(Cuda().live() == 2);
  }
  CHECK(Cuda().live() == 0);
}

TEST_CASE("an edge that is not an ordinary one is handed to the branch") {
  Cuda().Forget();
  CudaCapture capture;
  for (const unsigned char type : {0, 1}) {
    REQUIRE(capture.Begin(Cuda().stream()).ok());
    Cuda().SetEdge(type);
    Cuda().Work("a");
    const Result<GraphChoice> choice = capture.NewChoice();
    REQUIRE(choice.ok());
    REQUIRE(capture.BeginBranch(*choice, 1).ok());
    CHECK(Cuda().edges() == std::vector<unsigned char>{type});
    REQUIRE(capture.NextBody().ok());
    CHECK(capture.End().ok());
  }
  CHECK(Cuda().live() == 0);
}

TEST_CASE("whatever fails, no capture goes on and no graph stays") {
  for (const char* function :
       {"BeginCapture", "BeginCaptureToGraph", "EndCapture", "GetCaptureInfo",
        "HandleCreate", "AddNode", "Instantiate", "Upload"}) {
    Cuda().Forget();
    CudaCapture capture;
    REQUIRE(Capture(capture).ok());
    const int calls = Cuda().calls(function);
    REQUIRE(calls > 0);
    for (int nth = 1; nth <= calls; ++nth) {
      CAPTURE(function);
      CAPTURE(nth);
      Cuda().Forget();
      Cuda().Fail(function, nth);
      const auto failed = Capture(capture);
      REQUIRE_FALSE(failed.ok());
      CHECK(failed.error().message.find("it was told to fail") !=
            std::string::npos);
      CHECK_FALSE(Cuda().is_capturing());
      // Parts end with a, b; c; d; e; the empty one; f; and with g. Where that of a body
      // fails, its graph is gone, and what is around it may not be touched.
      const bool is_left =
          function == std::string("EndCapture") && nth > 1 && nth < calls;
      CHECK(Cuda().live() == (is_left ? 1 : 0));
      // And the next one is as ever.
      Cuda().Forget();
      CHECK(Capture(capture).ok());
      CHECK(Cuda().live() == 0);
    }
  }
}

TEST_CASE("a capture that ends in a branch is none") {
  Cuda().Forget();
  CudaCapture capture;
  REQUIRE(capture.Begin(Cuda().stream()).ok());
  Cuda().Work("a");
  const Result<GraphChoice> choice = capture.NewChoice();
  REQUIRE(choice.ok());
  REQUIRE(capture.BeginBranch(*choice, 2).ok());
  CHECK_FALSE(capture.End().ok());
  CHECK(Cuda().live() == 0);
  CHECK_FALSE(Cuda().is_capturing());
}

TEST_CASE("branches want a driver that has them") {
  CHECK(CudaCapture::HasBranches(12080).ok());
  CHECK(CudaCapture::HasBranches(12060).error().code ==
        ErrorCode::kUnsupported);
}

#endif

}  // namespace
}  // namespace stowage::gpu
