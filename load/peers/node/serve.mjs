// SPDX-License-Identifier: MIT
// serve.mjs - the HTTP server around a cache library: GET /ping is a constant, everything else is a document of
// the origin through the cache. What the environment says stands in script.h.
import http from 'node:http'

const origin = new URL(process.env.ORIGIN)
const agent = new http.Agent({ keepAlive: true })

export const settings = {
    ttl_s: Number(process.env.TTL_S),
    stale_s: Number(process.env.STALE_S),
    redis: { host: '127.0.0.1', port: Number(process.env.REDIS_PORT) }
}

// The document of this path, as text; rejects when the origin's answer is not a 200.
export function load(path) {
    return new Promise((resolve, reject) => {
        const request = http.get({ host: origin.hostname, port: origin.port, path, agent }, (answer) => {
            const pieces = []
            answer.on('data', (piece) => pieces.push(piece))
            answer.on('error', reject)
            answer.on('end', () => {
                if (answer.statusCode === 200) resolve(Buffer.concat(pieces).toString())
                else reject(new Error(`the origin answers ${answer.statusCode}`))
            })
        })
        request.on('error', reject)
    })
}

function answer(response, status, type, text) {
    response.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) })
    response.end(text)
}

// `get` has the document of a path from the cache, or has it loaded.
export function serve(get) {
    const server = http.createServer((request, response) => {
        if (request.method !== 'GET') {
            answer(response, 405, 'text/plain', 'GET only\n')
            return
        }
        if (request.url === '/ping') {
            answer(response, 200, 'text/plain', 'pong\n')
            return
        }
        get(request.url).then(
            (text) => answer(response, 200, 'application/json', text),
            (error) => answer(response, 503, 'text/plain', `${error}\n`)
        )
    })
    server.keepAliveTimeout = 300000
    server.listen({ host: '127.0.0.1', port: Number(process.env.PORT), backlog: 4096 })
    process.on('SIGTERM', () => process.exit(0))
}
