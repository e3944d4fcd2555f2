// Expectations about glint::Error: one line, of the right kind, that names what it should.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace glint {

/// Runs `action`, which must throw a glint::Error that is not internal, on one line, and holds every one of
/// `parts`.
template <class Action>
void expect_error(const Action& action, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(error.kind(), ErrorKind::internal) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
    }
    return;
  } catch (const std::exception& error) {
    FAIL() << "not a glint::Error: " << error.what();
  }
  FAIL() << "nothing was thrown, expected an error with: " << (parts.empty() ? "" : parts[0]);
}

}  // namespace glint
