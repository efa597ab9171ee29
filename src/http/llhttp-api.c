/* SPDX-License-Identifier: Apache-2.0 */

/* Sources of llhttp as a package installs them, where there is no library: configure finds their
 * folder. Its states are a unit of their own, since both declare the same functions in other words.
 */

#include <api.c>
#include <http.c>
