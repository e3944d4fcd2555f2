// The compiled halves of Asio, Beast and Asio's TLS, once for the program.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
