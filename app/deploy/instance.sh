#!/bin/sh
# SPDX-License-Identifier: MIT
# instance.sh - prints catalogd@.service, made of catalogd.service: several instances on one machine that all accept
# from the socket of catalogd.socket. So while one restarts the others answer. Each has its operations listener in a
# folder of its own.
#
#   sh instance.sh catalogd.service >catalogd@.service
#   systemctl disable --now catalogd.service && systemctl enable --now catalogd.socket catalogd@1 catalogd@2
set -eu

sed -e 's|^Description=.*|& (%i)|' \
    -e 's|^NotifyAccess=.*|&\nSockets=catalogd.socket|' \
    -e 's|^ExecStart=.*|& --ops-listen unix:/run/catalogd-%i/ops.sock|' \
    -e 's|^RuntimeDirectory=.*|RuntimeDirectory=catalogd-%i|' "$1"
