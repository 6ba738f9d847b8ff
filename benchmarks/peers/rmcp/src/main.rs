//! The bench tools on rmcp: `bench-rmcp stdio|PORT [fast|default]`. One thread, as the other peers have one.
//! fast: no sessions, JSON answers; default: sessions and event streams.
use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::model::{ServerCapabilities, ServerInfo};
use rmcp::transport::streamable_http_server::{
    session::local::LocalSessionManager, StreamableHttpServerConfig, StreamableHttpService,
};
use rmcp::{tool, tool_handler, tool_router, ServerHandler, ServiceExt};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
    #[allow(dead_code)]
    n: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sleep {
    seconds: f64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Blob {
    size: usize,
}

#[derive(Clone)]
struct Bench {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Bench {
    fn new() -> Self {
        Self { tool_router: Self::tool_router() }
    }

    #[tool(description = "The text.")]
    async fn echo(&self, Parameters(given): Parameters<Echo>) -> String {
        given.text
    }

    #[tool(description = "The sum.")]
    async fn add(&self, Parameters(given): Parameters<Add>) -> String {
        (given.a + given.b).to_string()
    }

    #[tool(description = "An answer after some time.")]
    async fn sleep(&self, Parameters(given): Parameters<Sleep>) -> String {
        tokio::time::sleep(std::time::Duration::from_secs_f64(given.seconds)).await;
        "slept".into()
    }

    #[tool(description = "A text of this size.")]
    async fn blob(&self, Parameters(given): Parameters<Blob>) -> String {
        "x".repeat(given.size)
    }
}

#[tool_handler]
impl ServerHandler for Bench {
    fn get_info(&self) -> ServerInfo {
        ServerInfo::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let place = given.next().unwrap_or_default();
    if place == "stdio" {
        Bench::new().serve((tokio::io::stdin(), tokio::io::stdout())).await?.waiting().await?;
        return Ok(());
    }
    let fast = given.next().as_deref() == Some("fast");
    let mut config = StreamableHttpServerConfig::default();
    config.stateful_mode = !fast;
    config.json_response = fast;
    let service = StreamableHttpService::new(|| Ok(Bench::new()), LocalSessionManager::default().into(), config);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{place}")).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
