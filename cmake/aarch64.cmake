# SPDX-License-Identifier: Apache-2.0
#
# Toolchain for a compile check on 64-bit Arm. Nothing is linked, so the libraries themselves
# need not exist for that machine; only their headers are borrowed from this one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
