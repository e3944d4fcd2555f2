// A test program that is carried to a GPU machine as one file: tests by name, one line each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace glint::gpu {

struct Test {
  std::string name;
  std::function<void()> body;  // throws what is wrong
};

std::vector<Test>& tests();

/// Adds a test before main.
struct Register {
  Register(std::string name, std::function<void()> body) {
    tests().push_back({std::move(name), std::move(body)});
  }
};

/// Throws unless it holds.
template <class... Parts>
void expect(bool holds, const Parts&... parts) {
  if (!holds) throw Error(ErrorKind::internal, cat(parts...));
}

/// True: wide shapes and most repetitions are to be left out, under a tool that makes everything slow.
bool& small_shapes();

/// How often what has to give the same bits again is done again: 20 times, or twice.
int repetitions();

/// A figure for the test's line.
void note(const std::string& text);
/// The figures since the last call.
std::string take_notes();

}  // namespace glint::gpu
