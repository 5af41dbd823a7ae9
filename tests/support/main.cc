// The main function of every test. `bazel test --test_filter=PATTERN` reaches
// us as TESTBRIDGE_TEST_ONLY and selects test cases by name (* matches any
// run of characters); doctest's own flags work too. Under Bazel the number of
// cases to be run is printed first: from it tools/count_tests.py knows how many a
// crash has left out.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace {

void Configure(doctest::Context* context, int argc, char** argv) {
  if (const char* filter = std::getenv("TESTBRIDGE_TEST_ONLY")) {
    context->addFilter("test-case", filter);
  }
  context->applyCommandLine(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("TEST_TARGET") != nullptr) {
    doctest::Context counting;
    Configure(&counting, argc, argv);
    const char* const count[] = {argv[0], "--count"};
    counting.applyCommandLine(2, count);
    counting.run();
    std::cout.flush();
    std::fflush(stdout);  // a crash would lose it
  }
  doctest::Context context;
  Configure(&context, argc, argv);
  return context.run();
}
